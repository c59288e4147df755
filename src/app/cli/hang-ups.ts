/**
 * Notices SIGHUP, which would end the process otherwise. Signals that come before `listen` are not lost: it is then called
 * at once.
 */
export class HangUps {
  #count = 0;
  #listener: (() => void) | undefined;

  constructor() {
    process.on('SIGHUP', () => {
      this.#count++;
      this.#listener?.();
    });
  }

  /** Calls `onHangUp` for each signal. */
  listen(onHangUp: () => void): void {
    this.#listener = onHangUp;
    if (this.#count > 0) onHangUp();
  }
}
