// The e-process of ratchet.stats.eprocess, operation by operation: both use only operations that
// IEEE 754 defines exactly, so the browser gets the same bits as the server.

const HEDGE = 0.7;
const STEADY = 0.15;
const SMALL = 0.1;
const LARGE = 0.3;
const CAP = 0.99;
const PRIOR_SQUARE = 0.1;
const PRIOR_WEIGHT = 5.0;
const CEILING = 1e100;

export class EProcess {
  value: number;
  peak = 1.0;
  reached = false;
  private hedge = HEDGE;
  private small = STEADY;
  private large = STEADY;
  private squares = PRIOR_SQUARE * PRIOR_WEIGHT;
  private seen = 0;
  private clock = 0;
  private readonly cap: number;

  constructor(
    readonly nullMean: number,
    readonly threshold: number,
    public horizon: number,
  ) {
    this.cap = CAP / (1.0 + nullMean);
    this.value = this.hedge + this.small + this.large;
  }

  skip(): void {
    this.clock += 1;
  }

  observe(observation: number): number {
    if (this.reached) return this.value;
    const [hedgeBet, smallBet, largeBet] = this.bets();
    const excess = observation - this.nullMean;
    this.squares += excess * excess;
    this.seen += 1;
    this.clock += 1;
    this.hedge = this.hedge * (1.0 + hedgeBet * excess);
    this.small = this.small * (1.0 + smallBet * excess);
    this.large = this.large * (1.0 + largeBet * excess);
    this.value = this.hedge + this.small + this.large;
    if (this.value > this.peak) {
      this.peak = this.value;
      if (this.value >= this.threshold) this.reached = true;
    }
    if (this.value > CEILING) {
      this.hedge = Math.min(this.hedge, CEILING);
      this.small = Math.min(this.small, CEILING);
      this.large = Math.min(this.large, CEILING);
    }
    return this.value;
  }

  private bets(): [number, number, number] {
    const deviation = Math.sqrt(this.squares / (PRIOR_WEIGHT + this.seen));
    const left = this.horizon - this.clock;
    let hedge = 0.0;
    if (left > 0 && !this.reached) {
      const goal = this.threshold - this.small - this.large;
      const share = goal > this.hedge ? this.hedge / goal : 1.0;
      hedge = Math.min(Math.sqrt(urgency(share) / left) / deviation, this.cap);
    }
    return [hedge, Math.min(SMALL / deviation, this.cap), Math.min(LARGE / deviation, this.cap)];
  }
}

function urgency(share: number): number {
  if (share >= 1.0) return 0.6366;
  let doublings = 60.0;
  if (share >= 1e-18) {
    const [fraction, exponent] = frexp(share);
    doublings = 2.0 - 2.0 * fraction - exponent;
  }
  return 0.6366 + doublings * (0.9 + (0.458 * doublings) / (4.943 + doublings));
}

/** A positive normal number as fraction in [0.5, 1) and exponent of two. */
export function frexp(value: number): [number, number] {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const exponent = ((view.getUint32(0) >>> 20) & 0x7ff) - 1022;
  return [value / 2 ** exponent, exponent];
}
