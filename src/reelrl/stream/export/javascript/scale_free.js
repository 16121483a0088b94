// ---- the policy for any ladder: a tower reads the context, one small net scores each rung -------------------------

const HISTORY = 8, AHEAD = 4, SPANS_S = [8, 30, 120], RESTLESS = 0.35;
const half = value => clamp(value, -6, 6) * 0.5;
const log1p = Math.log1p;

class Net {
  constructor(ladder, { utilities, stall_penalty, smooth_penalty, buffer_s, caution, thrift, ease_s }) {
    // A ladder of one worth has nothing to choose; any scale will do.
    const most = Math.max(...utilities.map(row => Math.max(...row)), 1e-9);
    this.ladder = ladder;
    this.utilities = utilities.map(row => row.map(worth => worth / most));
    this.stall_penalty = stall_penalty / most;
    this.smooth_penalty = smooth_penalty;
    this.buffer_s = buffer_s;
    this.caution = caution ?? SHAPE.caution;
    this.thrift = thrift ?? SHAPE.thrift;
    this.ease_s = ease_s ?? SHAPE.ease_s;
    this.rates = ladder.bitrates_kbps.map(rate => rate / 1000);
    const nominal = ladder.bitrates_kbps.map(rate => rate * ladder.chunk_s * 125);
    this.relative = ladder.sizes_bytes.map(row => sum(row.map((size, rung) => size / nominal[rung])) / row.length);
    this.link = null;
  }

  /** What the newest column of the state measured; once per download. */
  remember(state) {
    const last = state[0].length - 1, first = this.link === null;
    const rate = Math.log(clamp(state[2][last] * 8, 1e-3, 1e5)), delay_s = clamp(state[3][last] * 10, 1e-2, 1e4);
    const old = this.link ?? { rates: [], delays: [], means: SPANS_S.map(() => rate), variances: SPANS_S.map(() => 0),
      lowest: rate, longest: delay_s, fading: delay_s, jumps: 0, elapsed_s: 0 };
    // A long download says as much about the link as many short ones.
    const shares = SPANS_S.map(span_s => 1 - Math.exp(-delay_s / span_s));
    const jump = first ? 0 : Math.abs(rate - old.rates.at(-1));
    this.link = {
      rates: [...old.rates, rate].slice(-HISTORY),
      delays: [...old.delays, Math.log(delay_s)].slice(-HISTORY),
      means: old.means.map((mean, i) => mean + shares[i] * (rate - mean)),
      variances: old.variances.map((variance, i) => (1 - shares[i]) * (variance + shares[i] * (rate - old.means[i]) ** 2)),
      lowest: Math.min(old.lowest, rate),
      longest: Math.max(old.longest, delay_s),
      fading: Math.max(0.94 * old.fading, delay_s),
      jumps: first ? 0 : old.jumps + 0.2 * (jump - old.jumps),
      elapsed_s: old.elapsed_s + delay_s,
    };
  }

  /** The buffer that the thrifty play with: the emptier it is, the less of it. Before the end all of it is spent. */
  counted_s(buffer_s, left_s) {
    const thrift = left_s < this.ease_s ? this.thrift * left_s / this.ease_s : this.thrift;
    return buffer_s * Math.min(buffer_s / this.buffer_s, 1) ** thrift;
  }

  scores(state) {
    const { context, rungs } = this.features(state);
    let summary = context;
    for (const layer of SHAPE.hidden) summary = linear(layer, summary).map(silu);
    const shared = linear("rung_context", summary);
    const each = rungs.map(rung => linear("rung", rung).map((value, i) => silu(value + shared[i])));
    const mean = each[0].map((_, i) => sum(each.map(row => row[i])) / each.length);
    const most = each[0].map((_, i) => Math.max(...each.map(row => row[i])));
    const all = linear("mix_all", [...mean, ...most]);
    return each.map(row => linear("score", linear("mix", row).map((value, i) => silu(value + all[i])))[0]);
  }

  features(state) {
    const { ladder, link, rates, stall_penalty, smooth_penalty } = this, { chunks, chunk_s, sizes_bytes } = ladder, newest = state[0].length - 1;
    const chunk = Math.min(chunks - Math.round(state[5][newest] * chunks), chunks - 1), remaining = chunks - chunk;
    const last_kbps = state[0][newest] * ladder.bitrates_kbps.at(-1);
    const last_rung = best(ladder.bitrates_kbps.map(rate => -Math.abs(rate - last_kbps)));
    const utilities = this.utilities[chunk], last_utility = this.utilities[Math.max(chunk - 1, 0)][last_rung];
    const sizes_mbit = sizes_bytes[chunk].map(size => size * 8e-6), buffer_s = this.counted_s(state[1][newest] * 10, remaining * chunk_s);
    const restless = Math.min(Math.sqrt(link.variances.at(-1)) / RESTLESS, 1);
    const fear = Math.max(this.caution - 1, 0) * restless;

    const top = Math.log(rates.at(-1)), lowest = Math.log(rates[0]);
    const paces = link.rates.map(rate => Math.exp(-rate)), recent = paces.slice(-5); // seconds per megabit
    const harmonic = sum(recent) / recent.length, worst = Math.max(...paces), last = paces.at(-1);
    const absent = Array(HISTORY - paces.length).fill(0);
    const ahead = Array.from({ length: AHEAD }, (_, i) => this.relative[chunk + 1 + i] ?? 1);
    const context = [
      ...absent, ...link.rates.map(rate => half(rate - top)),
      ...absent, ...link.delays.map(delay => 0.5 * delay),
      ...absent, ...paces.map(() => 1),
      ...link.means.map(mean => half(mean - top)), ...link.means.map(mean => half(mean - lowest)),
      ...link.variances.map(Math.sqrt),
      half(link.lowest - top), half(link.lowest - lowest), log1p(link.longest) * 0.5, log1p(link.fading) * 0.5, link.jumps,
      log1p(link.elapsed_s) * 0.3, log1p(buffer_s) * 0.5, buffer_s / 30, buffer_s / this.buffer_s,
      log1p(buffer_s / chunk_s) * 0.5, Math.log(chunk_s), Math.log(this.buffer_s / 30), Math.log(stall_penalty + 1e-2) * 0.5,
      Math.min(this.caution, 1), log1p(fear) * 0.5, log1p(smooth_penalty), (top - lowest) * 0.5, rates.length / 8, last_utility, Math.min(remaining / 40, 1),
      Math.exp(-remaining / 4), ...ahead.map(share => Math.log(clamp(share, 0.1, 10))),
    ];
    const long = Math.exp(-link.means.at(-1)), dread = Math.min(stall_penalty, 4);
    const rungs = rates.map((rate, rung) => {
      const size = sizes_mbit[rung], took = [harmonic, worst, last].map(pace => size * pace), long_s = size * long;
      const nominal = Math.log(rate), change = utilities[rung] - last_utility, above = rung + 1 < rates.length ? 1 : 0;
      return [
        ...[...took, long_s].map(took_s => 0.5 * Math.log(took_s + 1e-2)),
        ...[...took, long_s].map(took_s => Math.tanh((buffer_s - took_s) / 10)),
        ...took.slice(0, 2).map(took_s => Math.tanh((buffer_s - took_s) / chunk_s)),
        ...[took[0], took[1], long_s].map(took_s => Math.tanh((took_s - chunk_s) / chunk_s)),
        half(nominal + Math.log(harmonic)), half(nominal - link.means.at(-1)), half(nominal - top),
        clamp(Math.log(size / (rate * chunk_s)), -3, 3), utilities[rung], change, Math.abs(change) * smooth_penalty,
        dread * clamp(took[0] - buffer_s, 0, 4), dread * clamp(took[1] - buffer_s, 0, 4),
        above ? utilities[rung + 1] - utilities[rung] : 0, above,
      ];
    });
    return { context, rungs };
  }
}
