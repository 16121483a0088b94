// ---- the policy for one ladder: the 6 x 8 state in scale-free form, one tower -------------------------------------

const LONG_DOWNLOAD_S = 6;

class Net {
  constructor(ladder) {
    this.rungs = weight(`${SHAPE.last}.bias`).shape[0];
    if (ladder.bitrates_kbps.length !== this.rungs)
      throw new Error(`the ladder has ${ladder.bitrates_kbps.length} rungs and this policy chooses among ${this.rungs}; ` +
        "export `scalefree`, which plays any ladder");
    this.memory = null;
  }

  /** Six numbers that outlast the eight columns; once per download. */
  remember(state) {
    const last = state[0].length - 1, seen = state[3].map(delay => (delay > 0 ? 1 : 0));
    const rateAt = column => Math.log(state[2][column] * 8 + 1e-3);
    const rate = rateAt(last), jump = seen[last - 1] ? Math.abs(rate - rateAt(last - 1)) : 0;
    const delay_s = state[3][last] * 10, delay = Math.log(delay_s + 1e-2);
    const first = sum([...seen]) === 1 || !this.memory;
    const [lowest, mean, variance, longest, trouble, jumps] = first ? [rate, rate, 0, delay, 0, 0] : this.memory;
    this.memory = [
      Math.min(lowest, rate),
      mean + 0.1 * (rate - mean),
      variance + 0.1 * ((rate - mean) ** 2 - variance),
      Math.max(longest, delay),
      Math.max(0.93 * trouble, delay_s > LONG_DOWNLOAD_S ? 1 : 0),
      jumps + 0.2 * (jump - jumps),
    ];
  }

  scores(state) {
    let x = this.features(state);
    for (const layer of SHAPE.hidden) x = linear(layer, x).map(silu);
    return linear(SHAPE.last, x);
  }

  features(state) {
    const [share, buffer, throughput, delay, next, remaining] = state.map(row => [...row]);
    const seen = delay.map(value => (value > 0 ? 1 : 0)), last = seen.length - 1, memory = this.memory;
    const rates = throughput.map((value, i) => (seen[i] ? Math.log(value * 8 + 1e-3) : 0));
    const delays = delay.map((value, i) => (seen[i] ? Math.log(value * 10 + 1e-2) : 0));
    const sizes_mb = next.slice(0, this.rungs), now_s = buffer[last] * 10;
    const slowness = throughput.map((value, i) => seen[i] / (value + 1e-4)); // seconds per megabyte
    const mean = sum(slowness.slice(-5)) / Math.max(sum(seen.slice(-5)), 1), worst = Math.max(...slowness);
    const took = [mean, worst, slowness[last]].flatMap(pace => sizes_mb.map(size => Math.log(size * pace + 1e-2)));
    const average = sum(rates) / Math.max(sum(seen), 1);
    const margin = pace => sizes_mb.map(size => Math.tanh((now_s - size * pace) / 10));
    return [
      ...share, ...buffer.map(value => value / 3), Math.log1p(now_s), ...rates.map(value => 0.5 * value),
      ...rates.map((value, i) => value - average * seen[i]), ...delays.map(value => 0.5 * value),
      ...sizes_mb.map(size => Math.log(size + 1e-2)), ...took.map(value => 0.5 * value), ...margin(mean), ...margin(worst),
      remaining[last], ...seen, 0.5 * memory[0], 0.5 * memory[1], Math.sqrt(memory[2]), 0.5 * memory[3], memory[4],
      memory[5], ...sizes_mb.map(size => 0.5 * (Math.log(size * 8 + 1e-3) - memory[0])),
    ];
  }
}
