/** Sets the clock of a worker that loads this file with `--import` wrong by CHAOS_CLOCK_OFF_MS. */
const offMs = Number(process.env.CHAOS_CLOCK_OFF_MS);
const RightDate = Date;

class WrongDate extends RightDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(RightDate.now() + offMs);
    else super(...(given as [number]));
  }

  static override now(): number {
    return RightDate.now() + offMs;
  }
}

globalThis.Date = WrongDate as DateConstructor;
