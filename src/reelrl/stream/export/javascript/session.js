// ---- one viewing: what the player measures becomes the state that the policy was trained on ----------------------

const ROWS = 6, COLUMNS = 8, PENSIEVE_KBPS = [300, 750, 1200, 1850, 2850, 4300], HD_SCORES = [1, 2, 3, 12, 15, 20];
const STALL_PENALTY = { linear: 4.3, scaled: 4.3, log: 2.66, hd: 8, vmaf: 4.3, psnr: 4.3, ssim: 4.3 };

const sum = values => values.reduce((total, value) => total + value, 0);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const silu = value => value / (1 + Math.exp(-value));
const best = scores => scores.reduce((found, score, rung) => (score > scores[found] ? rung : found), 0);

/** `bitrates_kbps` rising, `chunk_s`, and `sizes_bytes[chunk][rung]` or `chunks`: what ladder.json holds. */
function completed(ladder) {
  const { bitrates_kbps: rates, chunk_s } = ladder;
  const rising = Array.isArray(rates) && rates.length > 1 && rates.every((rate, rung) => rate > (rates[rung - 1] ?? 0));
  if (!rising) throw new Error(`bitrates_kbps = ${JSON.stringify(rates)}; give two rungs or more, the lowest first`);
  if (!(chunk_s > 0)) throw new Error(`chunk_s = ${chunk_s}; give the seconds that a segment lasts`);
  const chunks = ladder.sizes_bytes?.length ?? ladder.chunks;
  if (!(chunks > 0)) throw new Error(`chunks = ${chunks}; give how many segments the video has, or sizes_bytes`);
  const nominal = rates.map(rate => rate * (chunk_s * 1000) / 8);
  const sizes_bytes = ladder.sizes_bytes ?? Array.from({ length: chunks }, () => nominal);
  return { ...ladder, chunks, sizes_bytes };
}

/** The worth of each segment at each rung, as in `reel evaluate abr --qoe`. */
function utilitiesOf(ladder, variant) {
  const rates = ladder.bitrates_kbps, top = rates.at(-1);
  if (ladder.utilities) return ladder.utilities;
  if (ladder[variant]) {
    const scale = 4.3 / Math.max(...ladder[variant].map(row => Math.max(...row)));
    return ladder[variant].map(row => row.map(score => score * scale));
  }
  const worth = {
    linear: rate => rate / 1000,
    scaled: rate => rate / top * 4.3,
    log: rate => Math.log(rate / rates[0]),
    hd: rate => between(rate, PENSIEVE_KBPS, HD_SCORES),
  }[variant];
  if (!worth) throw new Error(`qoe = ${variant}; choose linear, scaled, log or hd, or one whose scores the ladder holds`);
  const row = rates.map(worth);
  return Array.from({ length: ladder.chunks }, () => row);
}

function between(value, places, heights) {
  const above = places.findIndex(place => place >= value);
  if (above <= 0) return above === 0 ? heights[0] : heights.at(-1);
  const share = (value - places[above - 1]) / (places[above] - places[above - 1]);
  return heights[above - 1] + share * (heights[above] - heights[above - 1]);
}

export class Session {
  /**
   * `wishes`: `qoe` (linear), `rebuf_penalty` (the variant's own), `smooth_penalty` (1), `buffer_s` (60: how far ahead
   * the player downloads), `caution`, `thrift`, `ease_s` (scale-free policies: what is feared, what is saved for it).
   */
  constructor(ladder, wishes = {}) {
    this.ladder = completed(ladder);
    this.columns = Math.max(COLUMNS, this.ladder.bitrates_kbps.length);
    this.state = Array.from({ length: ROWS }, () => new Float32Array(this.columns));
    const qoe = wishes.qoe ?? "linear";
    this.net = new Net(this.ladder, {
      utilities: utilitiesOf(this.ladder, qoe),
      stall_penalty: wishes.rebuf_penalty ?? STALL_PENALTY[qoe],
      smooth_penalty: wishes.smooth_penalty ?? 1,
      buffer_s: wishes.buffer_s ?? 60,
      caution: wishes.caution,
      thrift: wishes.thrift,
      ease_s: wishes.ease_s,
    });
    this.first_rung = Math.min(wishes.first_rung ?? 1, this.ladder.bitrates_kbps.length - 1);
    this.measurements = 0;
    this.fresh = false;
  }

  /** A segment has arrived. `download_ms` runs from the request, not from the first byte; abandoned ones don't count. */
  downloaded({ rung, size_bytes, download_ms }) {
    const { bitrates_kbps: rates } = this.ladder, delay_ms = Math.max(download_ms, 1);
    if (!(size_bytes > 0 && Number.isFinite(delay_ms) && rung >= 0 && rung < rates.length)) return;
    const column = [rates[rung] / rates.at(-1), 0, size_bytes / delay_ms / 1000, delay_ms / 1000 / 10, 0, 0];
    this.state.forEach((row, index) => {
      row.copyWithin(0, 1);
      row[this.columns - 1] = column[index];
    });
    this.measurements += 1;
    this.fresh = true;
  }

  /**
   * The rung of segment `chunk`, to be asked just before its request; `buffer_s` is the video ahead of the playhead.
   * It may be asked again while the player waits: only the buffer is read anew.
   */
  choose(buffer_s, chunk) {
    const { chunks, sizes_bytes } = this.ladder, next = clamp(chunk, 0, chunks - 1);
    if (this.measurements === 0) return { rung: this.first_rung, scores: [], reason: "nothing measured yet" };
    const last = this.columns - 1;
    this.state[1][last] = Math.max(buffer_s, 0) / 10;
    this.state[5][last] = (chunks - next) / chunks;
    this.state[4].fill(0);
    sizes_bytes[next].forEach((bytes, rung) => { this.state[4][rung] = bytes / 1000 / 1000; });
    if (this.fresh) this.net.remember(this.state);
    this.fresh = false;
    return this.decision(this.state);
  }

  /** The choice in the next state, (6, columns), of an environment: what a controller's `act` does in Python. */
  act(state) {
    this.net.remember(state);
    return this.decision(state);
  }

  decision(state) {
    const scores = this.net.scores(state), rung = best(scores);
    return { rung, scores, reason: this.reason(state, scores, rung) };
  }

  reason(state, scores, rung) {
    const last = state[0].length - 1, others = scores.filter((_, other) => other !== rung);
    const kbps = rung => Math.round(this.ladder.bitrates_kbps[rung]);
    const rival = scores.indexOf(Math.max(...others));
    const share = 1 / sum(scores.map(score => Math.exp(score - scores[rung])));
    return `${kbps(rung)} kbit/s (${Math.round(100 * share)} %) before ${kbps(rival)}: ` +
      `${(state[1][last] * 10).toFixed(1)} s buffered, last segment came at ${(state[2][last] * 8).toFixed(2)} Mbit/s`;
  }
}

/** y = W x + b; `weights[name + ".weight"]` is [outputs, inputs]. */
function linear(name, x) {
  const { values, shape: [outputs, inputs] } = weight(`${name}.weight`);
  const bias = WEIGHTS[`${name}.bias`] ? weight(`${name}.bias`).values : null;
  const y = new Array(outputs);
  for (let row = 0; row < outputs; row++) {
    let total = bias ? bias[row] : 0;
    for (let column = 0, at = row * inputs; column < inputs; column++, at++) total += values[at] * x[column];
    y[row] = total;
  }
  return y;
}

const decoded = {};
function weight(name) {
  if (decoded[name]) return decoded[name];
  const [shape, base64] = WEIGHTS[name], bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  return (decoded[name] = { shape, values: new Float32Array(bytes.buffer) });
}
