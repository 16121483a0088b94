// The page of `reel play`: dash.js plays, a controller decides (the service, an exported policy, or dash.js itself), and
// what happens is drawn. Programs read `window.reel`: `done`, `error`, and `record`, all that was measured.
//   ?controller=bola&trace=bus       what to begin with; &qoe=scaled as in `reel evaluate abr --qoe`
//   ?policy=/site/policy.js          a module of `reel export abr` that decides here, without the service

const LINK_SHARE = 0.95, GAP_S = 0.5, EDGE_S = 0.1, RECENT = 5, DRAW_MS = 250;
const byId = id => document.getElementById(id);
const query = new URLSearchParams(location.search);
const seconds = () => performance.now() / 1000;
const mean = values => values.reduce((total, value) => total + value, 0) / values.length;
const grouped = number => Math.round(number).toLocaleString("en").replaceAll(",", "\u2009");

async function api(method, path, body) {
  const answer = await fetch(path, { method, headers: { "Content-Type": "application/json" },
    body: body && JSON.stringify(body) });
  const found = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(found?.error ?? `${path} answered ${answer.status}`);
  return found;
}

/** Who decides: `choose(segment, buffer_s, downloads, interrupted)` returns a rung and a reason. */
function service(session) {
  return (segment, buffer_s, downloads, interrupted) => {
    // dash.js waits for no promise, and the answer must fit the buffer of this moment.
    const request = new XMLHttpRequest();
    request.open("POST", `/api/sessions/${session.id}/decide`, false);
    request.setRequestHeader("Content-Type", "application/json");
    request.send(JSON.stringify({ segment, buffer_s, interrupted, downloads }));
    const answer = JSON.parse(request.responseText);
    if (request.status !== 200) throw new Error(answer.error);
    return { rung: answer.rung, reason: answer.reason.text };
  };
}

async function exported(session, address) {
  const { Session } = await import(address);
  const { variant, stall_penalty, smooth_penalty, utilities } = session.qoe;
  const policy = new Session({ ...session, utilities }, { qoe: variant, rebuf_penalty: stall_penalty, smooth_penalty,
    buffer_s: session.buffer_cap_s, first_rung: session.default_rung });
  return (segment, buffer_s, downloads) => {
    downloads.filter(each => !each.abandoned).forEach(each => policy.downloaded(each));
    return policy.choose(buffer_s, segment);
  };
}

/** The run of segments that have arrived, with one more: a busy player may have several of them still to append. */
function extended(run, start_s, end_s) {
  const follows = run && Math.abs(start_s - run.end_s) < GAP_S;
  return { start_s: follows ? run.start_s : start_s, end_s };
}

/** One viewing from the first segment to the last. */
class Viewing {
  constructor(session, video, choose) {
    Object.assign(this, { session, video, choose });
    this.record = { controller: session.controller, trace: session.trace?.name ?? null, downloads: [], decisions: [], stalls: [],
      buffers: [], startup_s: null, ended: false };
    this.pending = [];
    this.interrupted = false;
    this.begun_s = seconds();
    this.first_request_s = null;
    this.stall = null;
    this.newest = null;
    this.asked = null;
    this.listeners = new AbortController();
    this.player = dashjs.MediaPlayer().create();
    this.configure();
    this.listen();
    this.player.initialize(video, session.media + "manifest.mpd", true);
  }

  get now_s() { return seconds() - this.begun_s; }

  configure() {
    const { bitrates_kbps, default_rung, buffer_cap_s, decisions } = this.session;
    // Sessions start alike: no bitrate remembered from another one.
    const streaming = { lastBitrateCachingInfo: { enabled: false }, lastMediaSettingsCachingInfo: { enabled: false },
      abr: { initialBitrate: { video: Math.ceil(bitrates_kbps[default_rung]) } } };
    if (decisions !== "player") {
      const rules = Object.keys(this.player.getSettings().streaming.abr.rules);
      streaming.abr.rules = Object.fromEntries(rules.map(name => [name, { active: false }]));
      streaming.buffer = { bufferTimeDefault: buffer_cap_s, bufferTimeAtTopQuality: buffer_cap_s,
        bufferTimeAtTopQualityLongForm: buffer_cap_s, fastSwitchEnabled: false };
      this.addRule();
    }
    this.player.updateSettings({ streaming });
  }

  addRule() {
    const viewing = this;
    function ReelRule() {
      const answer = dashjs.FactoryMaker.getClassFactoryByName("SwitchRequest")(this.context);
      return {
        getClassName: () => "ReelRule",
        getSwitchRequest(context) {
          const request = answer.create();
          if (context.getMediaType() !== "video") return request;
          const offered = context.getAbrController().getPossibleVoRepresentationsFilteredBySettings(context.getMediaInfo(), true);
          request.representation = offered.find(each => each.id === String(viewing.decide())) ?? request.representation;
          return request;
        },
      };
    }
    ReelRule.__dashjs_factory_name = "ReelRule";
    this.player.addABRCustomRule("qualitySwitchRules", "ReelRule", dashjs.FactoryMaker.getClassFactory(ReelRule));
  }

  /** Where the video that is here or has arrived ends, from the playhead on. */
  get end_s() {
    const now_s = this.video.currentTime, held_s = now_s + (this.player.getBufferLength("video") || 0);
    const newest = this.newest && this.newest.start_s <= held_s + GAP_S ? this.newest.end_s : 0;
    return Math.max(held_s, newest);
  }

  get buffer_s() { return Math.max(this.end_s - this.video.currentTime, 0); }

  /** The segment that comes next: the one in which the buffer ends, which after a seek may be anywhere in it. */
  get next() { return Math.min(Math.floor((this.end_s + EDGE_S) / this.session.chunk_s), this.session.chunks - 1); }

  decide() {
    const segment = this.next, buffer_s = this.buffer_s;
    const asked = this.asked;
    if (asked?.segment === segment && !this.pending.length && !this.interrupted) return asked.rung;
    let decision;
    try {
      decision = this.choose(segment, buffer_s, this.pending, this.interrupted);
    } catch (error) {
      this.fail(error);
      return asked?.rung ?? this.session.default_rung;
    }
    const { rung, reason } = decision;
    this.pending = [];
    this.interrupted = false;
    this.asked = { segment, rung };
    this.record.decisions.push({ at_s: this.now_s, segment, rung, buffer_s, reason });
    return rung;
  }

  listen() {
    const { events } = dashjs.MediaPlayer, on = { signal: this.listeners.signal };
    const video_only = handle => ({ request, ...rest }) => {
      if (request?.mediaType === "video" && request.type === "MediaSegment") handle(request, rest);
    };
    this.player.on(events.FRAGMENT_LOADING_STARTED, video_only(() => { this.first_request_s ??= this.now_s; }));
    this.player.on(events.FRAGMENT_LOADING_COMPLETED, video_only((request, { error, response }) => {
      if (!error) this.arrived(request, response?.byteLength || request.bytesTotal, false);
    }));
    this.player.on(events.FRAGMENT_LOADING_ABANDONED, video_only(request => this.arrived(request, request.bytesLoaded, true)));
    this.player.on(events.ERROR, ({ error }) => this.fail(new Error(`dash.js: ${error.message ?? error}`)));
    if (this.session.decisions === "player")
      this.player.on(events.QUALITY_CHANGE_REQUESTED, ({ mediaType, reason, newRepresentation }) => {
        const why = reason?.rule ?? reason?.name ?? reason?.message ?? "its own rules";
        if (mediaType === "video")
          this.record.decisions.push({ at_s: this.now_s, rung: Number(newRepresentation.id), reason: `dash.js: ${why}` });
      });
    const { video } = this;
    video.addEventListener("playing", () => this.playing(), on);
    video.addEventListener("waiting", () => this.waiting(), on);
    video.addEventListener("seeking", () => { this.interrupted = true; this.stall = null; }, on);
    video.addEventListener("pause", () => { if (!video.ended) this.interrupted = true; }, on);
    video.addEventListener("ended", () => this.finish(), on);
    this.timer = setInterval(() => this.tick(), DRAW_MS);
  }

  arrived(request, size_bytes, abandoned) {
    const { chunk_s } = this.session, rung = Number(request.representation.id);
    const segment = Math.round(request.startTime / chunk_s), ended = request.endDate ?? new Date();
    const download = { segment, rung, size_bytes, download_ms: Math.max(ended - request.startDate, 1), abandoned };
    if (!abandoned) this.newest = extended(this.newest, request.startTime, request.startTime + request.duration);
    if (download.size_bytes > 0) this.pending.push(download);
    this.record.downloads.push({ ...download, at_s: this.now_s, buffer_s: this.buffer_s });
  }

  playing() {
    this.record.startup_s ??= this.now_s;
    if (this.stall) this.record.stalls.push({ ...this.stall, to_s: this.now_s });
    this.stall = null;
  }

  waiting() {
    // A player that waits at the start, for a seek or at the very end does not stall.
    const { video } = this, near_end = video.duration - video.currentTime < 0.2;
    if (this.record.startup_s !== null && !video.seeking && !video.paused && !near_end) this.stall ??= { from_s: this.now_s };
  }

  tick() {
    this.record.buffers.push([this.now_s, this.buffer_s]);
    draw(this);
    // At times Chromium stands still at the last frame and says "pause" where "ended" is due.
    if (this.video.paused && this.video.duration - this.video.currentTime < 0.1) this.finish();
  }

  fail(error) {
    say(error.message, "stalled");
    window.reel.error = error.message;
  }

  finish() {
    if (this.record.ended) return;
    this.record.ended = true;
    this.record.qoe = quality(this);
    this.record.first_request_s = this.first_request_s;
    this.stop();
    say("ended", "");
    Object.assign(window.reel, { record: this.record, done: true });
  }

  stop() {
    clearInterval(this.timer);
    this.listeners.abort();
    draw(this);
    this.player.destroy();
    api("DELETE", `/api/sessions/${this.session.id}`).catch(() => {});
  }
}

/** What the viewer got, per segment and without the first, as `reel evaluate abr` counts it. */
function quality({ session, record, stall, now_s }) {
  const { utilities, stall_penalty, smooth_penalty } = session.qoe, rungs = [];
  for (const { segment, rung, abandoned } of record.downloads) if (!abandoned) rungs[segment] = rung;
  const worth = rungs.map((rung, segment) => utilities[segment][rung]), rest = worth.slice(1);
  const stalled_s = record.stalls.reduce((total, each) => total + each.to_s - each.from_s, 0) + (stall ? now_s - stall.from_s : 0);
  const switches = rungs.filter((rung, segment) => segment && rung !== rungs[segment - 1]).length;
  if (!rest.length) return { stalled_s, switches, mean: null };
  const rebuffer = stall_penalty * stalled_s / rest.length;
  const smooth = smooth_penalty * mean(rest.map((value, index) => Math.abs(value - worth[index])));
  return { stalled_s, switches, quality: mean(rest), rebuffer, smooth, mean: mean(rest) - rebuffer - smooth, segments: worth.length };
}

// ---- what people see ---------------------------------------------------------------------------------------------

function say(text, kind) {
  byId("state").textContent = text;
  byId("state").className = kind;
}

function draw(viewing) {
  const { session, record, video } = viewing, arrived = record.downloads.filter(each => !each.abandoned), last = arrived.at(-1);
  const found = quality(viewing), rates = arrived.slice(-RECENT).map(each => each.size_bytes * 8 / each.download_ms);
  const link_kbps = rates.length ? 1 / mean(rates.map(rate => 1 / rate)) : null;
  if (viewing.stall) say("stalled", "stalled");
  else if (!record.ended && record.startup_s !== null) say(video.paused ? "paused" : "playing", "live");
  byId("bitrate").textContent = last ? grouped(session.bitrates_kbps[last.rung]) : "–";
  byId("buffer").textContent = viewing.buffer_s.toFixed(1);
  byId("throughput").textContent = link_kbps ? grouped(link_kbps) : "–";
  byId("stalls").textContent = found.stalled_s.toFixed(1);
  byId("switches").textContent = found.switches;
  byId("qoe").textContent = found.mean === null ? "–" : found.mean.toFixed(2);
  const decision = record.decisions.at(-1);
  if (decision) byId("reason").textContent = decision.reason;
  drawLadder(viewing, decision?.rung ?? last?.rung, link_kbps);
  const to_s = Math.max(viewing.now_s, 20);
  drawRates(byId("rates"), viewing, arrived, to_s);
  drawBuffer(byId("buffers"), viewing, to_s);
}

function drawLadder({ session, buffer_s, next: segment }, chosen, link_kbps) {
  const limit_s = Math.max(buffer_s, session.chunk_s);
  byId("ladder").innerHTML = session.bitrates_kbps.map((kbps, rung) => {
    const arrival_s = link_kbps ? session.sizes_bytes[segment][rung] / 125 / link_kbps : 0;
    const kind = `${rung === chosen ? "chosen" : ""} ${arrival_s > buffer_s ? "late" : ""}`;
    return `<li class="${kind}"><span>${grouped(kbps)} kbit/s</span><i style="--share:${Math.min(100, 100 * arrival_s / limit_s).toFixed(1)}%"></i>` +
      `<span>${link_kbps ? arrival_s.toFixed(1) + " s" : ""}</span></li>`;
  }).join("");
}

/** Scales and grid of a chart as wide as its place, so that its words are as large on a phone as on a desk. */
function frame(svg, height, to_s, top, marks) {
  const width = Math.max(svg.parentElement.clientWidth, 280), left = 34, right = width - 6, bottom = height - 24;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = at_s => left + at_s / to_s * (right - left), y = value => bottom - Math.min(value / top, 1) * (bottom - 6);
  let drawn = marks.map(mark => `<line x1="${left}" x2="${right}" y1="${y(mark)}" y2="${y(mark)}" stroke="var(--line)"/>` +
    `<text x="${left - 8}" y="${y(mark) + 4}" text-anchor="end">${mark}</text>`).join("");
  const step = [5, 10, 20, 30, 60, 120, 300].find(size => to_s / size <= width / 90) ?? 600;
  for (let mark = 0; mark <= to_s; mark += step)
    drawn += `<text x="${x(mark)}" y="${height - 6}" text-anchor="middle">${mark} s</text>`;
  return { x, y, left, right, bottom, drawn };
}

function steps(top) {
  const size = [0.2, 0.5, 1, 2, 5, 10, 20, 50].find(each => top / each <= 5) ?? 100;
  return Array.from({ length: Math.floor(top / size) + 1 }, (_, index) => Number((index * size).toFixed(1)));
}

function stallMarks({ record, stall, now_s }, { x, bottom }) {
  return [...record.stalls, ...(stall ? [{ ...stall, to_s: now_s }] : [])].map(({ from_s, to_s }) =>
    `<rect x="${x(from_s)}" width="${Math.max(x(to_s) - x(from_s), 1.5)}" y="6" height="${bottom - 6}" fill="var(--stall)" opacity=".45"/>`).join("");
}

function drawRates(svg, viewing, arrived, to_s) {
  const { session, first_request_s } = viewing, top = 1.25 * session.bitrates_kbps.at(-1) / 1000;
  const chart = frame(svg, 240, to_s, top, steps(top)), { x, y, bottom } = chart;
  let drawn = "";
  if (session.trace && first_request_s !== null) {
    const { edges_s, kbps } = session.trace, length_s = edges_s.at(-1) - edges_s[0], corners = [];
    for (let round = 0; round * length_s < to_s; round++)
      kbps.forEach((rate, slot) => {
        const [from_s, until_s] = [edges_s[slot], edges_s[slot + 1]].map(edge => first_request_s + round * length_s + edge - edges_s[0]);
        if (from_s < to_s) corners.push(`${x(from_s)},${y(LINK_SHARE * rate / 1000)} ${x(Math.min(until_s, to_s))},${y(LINK_SHARE * rate / 1000)}`);
      });
    drawn += `<polygon points="${x(first_request_s)},${bottom} ${corners.join(" ")} ${x(to_s)},${bottom}" fill="var(--link)"/>`;
  }
  drawn += chart.drawn + stallMarks(viewing, chart);
  const line = [];
  let before = null;
  for (const { at_s, download_ms, rung } of arrived) {
    const height = y(session.bitrates_kbps[rung] / 1000), from = x(Math.max(at_s - download_ms / 1000, 0));
    line.push(`${from},${before ?? height} ${from},${height} ${x(at_s)},${height}`);
    before = height;
  }
  drawn += `<polyline points="${line.join(" ")}" fill="none" stroke="var(--one)" stroke-width="3" stroke-linejoin="round"/>`;
  for (const { at_s, download_ms, size_bytes } of arrived)
    drawn += `<circle cx="${x(at_s)}" cy="${y(size_bytes * 8 / download_ms / 1000)}" r="3.5" fill="var(--two)"/>`;
  svg.innerHTML = drawn;
}

function drawBuffer(svg, viewing, to_s) {
  const { buffers } = viewing.record, top = Math.max(10, ...buffers.map(([, level]) => level)) * 1.1;
  const chart = frame(svg, 170, to_s, top, steps(top)), { x, y, bottom } = chart;
  const line = buffers.map(([at_s, level]) => `${x(at_s).toFixed(1)},${y(level).toFixed(1)}`).join(" ");
  const from = buffers.length ? x(buffers[0][0]) : x(0), until = buffers.length ? x(buffers.at(-1)[0]) : x(0);
  svg.innerHTML = chart.drawn + stallMarks(viewing, chart) +
    `<polygon points="${from},${bottom} ${line} ${until},${bottom}" fill="var(--fill)"/>` +
    `<polyline points="${line}" fill="none" stroke="var(--three)" stroke-width="2.5" stroke-linejoin="round"/>`;
}

// ---- choices -----------------------------------------------------------------------------------------------------

function offer(select, names, chosen) {
  select.innerHTML = "";
  for (const name of names) select.append(new Option(name, name, false, name === chosen));
}

async function play() {
  window.reel.viewing?.stop();
  Object.assign(window.reel, { viewing: null, record: null, done: false, error: null });
  const policy = query.get("policy"), controller = policy ? "page" : byId("controller").value;
  const trace = byId("trace").value || undefined;
  const session = await api("POST", "/api/sessions", { controller, trace, qoe: query.get("qoe") ?? undefined });
  if (session.trace) byId("title").textContent = `${policy ?? controller} on ${session.trace.name}`;
  else byId("title").textContent = policy ?? controller;
  byId("link-legend").hidden = !session.trace;
  const choose = policy ? await exported(session, policy) : service(session);
  window.reel.viewing = new Viewing(session, byId("video"), choose);
}

window.reel = { done: false, error: null, record: null, viewing: null };
const complain = error => { say(error.message, "stalled"); window.reel.error = error.message; };
try {
  if (!window.dashjs) throw new Error("dash.js is not here; in a checkout run `python hatch_build.py`, then load this page again");
  const setup = await api("GET", "/api/setup");
  offer(byId("controller"), setup.controllers, query.get("controller") ?? setup.controller);
  offer(byId("trace"), setup.traces, query.get("trace") ?? setup.traces[0]);
  byId("network").hidden = !setup.traces.length;
  byId("choices").addEventListener("submit", event => { event.preventDefault(); play().catch(complain); });
  await play();
} catch (error) {
  complain(error);
}
