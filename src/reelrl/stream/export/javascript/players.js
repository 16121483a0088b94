// ---- adapters: each hears of every video segment that arrived and is asked before the next is requested -----------

const GAP_S = 0.5, EDGE_S = 0.1;

/** What the adapters share. `options`: the wishes of a Session, `ladder` (as in ladder.json), `onDecision`. */
class Pilot {
  constructor(options) {
    this.options = options;
    this.reset();
  }

  reset() {
    this.session = null;
    this.arrived = null; // the run of segments that ends with the newest
    this.segment_s = 0;
    this.early = [];
    this.said = "";
  }

  /** Take the ladder; what the manifest says is used where `options.ladder` is missing or has other rungs. */
  begin(bitrates_kbps, segment_s, duration_s) {
    const chunk_s = segment_s || this.segment_s;
    if (this.session || !(chunk_s > 0 && duration_s > 0)) return;
    const known = this.options.ladder, fits = known?.bitrates_kbps.length === bitrates_kbps.length;
    const ladder = fits ? known : { bitrates_kbps, chunk_s, chunks: Math.max(Math.round(duration_s / chunk_s), 1) };
    this.session = new Session(ladder, this.options);
    this.early.forEach(each => this.session.downloaded(each));
  }

  /** A video segment has arrived: its rung, size, time from the request, and its place in the video. */
  downloaded(rung, size_bytes, download_ms, start_s, end_s) {
    // A busy player may have several segments still to append: what matters is where the run of them ends.
    const follows = this.arrived && Math.abs(start_s - this.arrived.end_s) < GAP_S;
    this.arrived = { start_s: follows ? this.arrived.start_s : start_s, end_s };
    this.segment_s = end_s - start_s;
    const measured = { rung, size_bytes, download_ms };
    if (this.session) this.session.downloaded(measured);
    else this.early.push(measured);
  }

  /** The rung of the next segment; `video_end_s` is where the player's video buffer around the playhead ends. */
  choose(now_s, video_end_s, rungs) {
    if (!this.session) return Math.min(this.options.first_rung ?? 1, rungs - 1);
    let end_s = Math.max(video_end_s, now_s);
    // What has arrived may not be in the player's buffer yet.
    if (this.arrived && this.arrived.start_s <= end_s + GAP_S) end_s = Math.max(end_s, this.arrived.end_s);
    const { chunk_s } = this.session.ladder, chunk = Math.floor((end_s + EDGE_S) / chunk_s)
    const buffer_s = Math.min(end_s - now_s, this.options.buffer_s ?? 60);
    const decision = { ...this.session.choose(buffer_s, chunk), chunk, buffer_s };
    const said = `${chunk} ${this.session.measurements} ${decision.rung}`;
    if (said !== this.said) this.options.onDecision?.(decision);
    this.said = said;
    return decision.rung;
  }
}

/** dash.js 5: call it before `player.initialize` or `attachSource`; `dashjs` is the library. */
export function forDash(player, dashjs, options = {}) {
  const pilot = new Pilot(options), buffer_s = options.buffer_s ?? 60, events = dashjs.MediaPlayer.events;
  const others = ["throughputRule", "bolaRule", "insufficientBufferRule", "switchHistoryRule", "droppedFramesRule",
    "abandonRequestsRule", "l2ARule", "loLPRule"];
  const buffer = { bufferTimeDefault: buffer_s, bufferTimeAtTopQuality: buffer_s, bufferTimeAtTopQualityLongForm: buffer_s,
    fastSwitchEnabled: false };
  const rules = Object.fromEntries(others.map(name => [name, { active: false }]));
  const known = player.getSettings().streaming.abr.rules;
  for (const name of others) if (!(name in known)) delete rules[name];
  player.updateSettings({ streaming: { abr: { rules }, buffer } });
  player.on(events.MANIFEST_LOADED, () => pilot.reset());
  player.on(events.FRAGMENT_LOADING_COMPLETED, ({ request, response, error }) => {
    if (error || request.mediaType !== "video" || request.type !== "MediaSegment") return;
    const size_bytes = response?.byteLength || request.bytesTotal;
    pilot.downloaded(request.representation.absoluteIndex, size_bytes, request.endDate - request.startDate, request.startTime,
      request.startTime + request.duration);
  });

  function ReelRule() {
    const answer = dashjs.FactoryMaker.getClassFactoryByName("SwitchRequest")(this.context);
    return {
      getClassName: () => "ReelRule",
      getSwitchRequest(context) {
        const request = answer.create();
        if (context.getMediaType() !== "video") return request;
        const representations = context.getAbrController().getPossibleVoRepresentationsFilteredBySettings(context.getMediaInfo(), true);
        if (representations.length < 2) return request;
        pilot.begin(representations.map(each => each.bitrateInKbit), representations[0].segmentDuration, player.duration());
        const now_s = player.time() || 0, ahead_s = player.getBufferLength("video") || 0; // NaN before the first segment
        const rung = pilot.choose(now_s, now_s + ahead_s, representations.length);
        request.representation = representations[rung];
        request.reason = { rule: "ReelRule" };
        return request;
      },
    };
  }
  ReelRule.__dashjs_factory_name = "ReelRule";
  player.addABRCustomRule("qualitySwitchRules", "ReelRule", dashjs.FactoryMaker.getClassFactory(ReelRule));
  return pilot;
}

/** hls.js 1: `new Hls({ abrController: forHls(Hls) })`; `Hls` is the library. */
export function forHls(Hls, options = {}) {
  return class extends Hls.DefaultConfig.abrController {
    constructor(hls) {
      super(hls);
      const buffer_s = options.buffer_s ?? 60;
      this.pilot = new Pilot(options);
      this._abandonRulesCheck = () => {}; // a download that has begun is finished, as the policy learned it
      Object.assign(hls.config, { testBandwidth: false, maxBufferLength: buffer_s, maxMaxBufferLength: buffer_s });
      hls.on(Hls.Events.MANIFEST_LOADING, () => this.pilot.reset());
      hls.on(Hls.Events.FRAG_LOADED, (_, { frag }) => {
        if (frag.type !== "main" || frag.sn === "initSegment") return;
        const { loading, loaded } = frag.stats, { details } = hls.levels[frag.level];
        this.forced = -1;
        this.pilot.begin(hls.levels.map(level => level.bitrate / 1000), frag.duration, details?.totalduration);
        this.pilot.downloaded(frag.level, loaded, loading.end - loading.start, frag.start, frag.start + frag.duration);
      });
      this.forced = this.chosen = -1;
    }

    get firstAutoLevel() {
      return Math.min(options.first_rung ?? 1, this.hls.levels.length - 1);
    }

    get nextAutoLevel() {
      const { hls } = this;
      if (!hls?.levels?.length) return -1;
      if (this.forced >= 0) return this.forced;
      const now_s = hls.media?.currentTime ?? 0, buffered = hls.mainForwardBufferInfo;
      this.chosen = Math.min(this.pilot.choose(now_s, buffered?.end ?? now_s, hls.levels.length), hls.maxAutoLevel);
      return this.chosen;
    }

    /** hls.js writes back what it read; after an error it asks for another level, until a segment arrives. */
    set nextAutoLevel(level) {
      this.forced = level === this.chosen ? -1 : level;
    }
  };
}

/** Shaka Player 5: `player.configure("abrFactory", forShaka(player))`, before `player.load`. */
export function forShaka(player, options = {}) {
  const pilot = new Pilot(options), MEDIA_SEGMENT = 1, buffer_s = options.buffer_s ?? 60;
  let variants = [], take = null, enabled = false, bandwidth = 0;
  player.configure("streaming.bufferingGoal", buffer_s);
  const rungs = () => [...variants].filter(each => each.video).sort((one, other) => one.bandwidth - other.bandwidth);
  const kbps = variant => (variant.video.bandwidth || variant.bandwidth) / 1000;
  const choose = () => {
    const now_s = player.getMediaElement()?.currentTime ?? 0, offered = rungs();
    const around = player.getBufferedInfo().video.find(({ start, end }) => start <= now_s + GAP_S && end > now_s);
    return offered[pilot.choose(now_s, around?.end ?? now_s, offered.length)] ?? variants[0];
  };
  player.getNetworkingEngine().registerResponseFilter((_, response, context) => {
    if (context?.type !== MEDIA_SEGMENT || context.stream?.type !== "video" || response.fromCache) return;
    const offered = rungs(), rung = offered.findIndex(each => each.video === context.stream), { segment } = context;
    const [start_s, end_s] = [segment.getStartTime(), segment.getEndTime()], { duration } = player.getMediaElement();
    pilot.begin(offered.map(kbps), end_s - start_s, Number.isFinite(duration) ? duration : player.seekRange().end);
    pilot.downloaded(rung, response.data.byteLength, response.timeMs, start_s, end_s);
    bandwidth = response.data.byteLength * 8000 / response.timeMs;
    // Shaka asks for the next segment once this one is appended: the answer must be there before.
    if (enabled) setTimeout(() => take?.(choose()), 0);
  });
  return () => ({
    init(callback) { take = callback; pilot.reset(); },
    stop() { take = null; enabled = false; },
    release() { take = null; },
    setVariants(offered) {
      const same = offered.length === variants.length && offered.every(each => variants.includes(each));
      variants = offered;
      return !same;
    },
    chooseVariant: () => (variants.some(each => each.video) ? choose() : variants[0]),
    enable() { enabled = true; },
    disable() { enabled = false; },
    segmentDownloaded() {},
    trySuggestStreams() { if (enabled) take?.(choose()); },
    getBandwidthEstimate: () => bandwidth,
    playbackRateChanged() {},
    setMediaElement() {},
    setCmsdManager() {},
    configure() {},
  });
}
