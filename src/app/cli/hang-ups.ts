/** Notices SIGHUP, which would end the process otherwise. Signals that nobody waits for count as one. */
export class HangUps {
  #hasCome = false;
  #onHangUp: () => void = () => undefined;

  constructor() {
    process.on('SIGHUP', () => {
      this.#hasCome = true;
      this.#onHangUp();
    });
  }

  /** Waits for a SIGHUP. Resolves at once if one has come since the last call. */
  async next(): Promise<void> {
    if (!this.#hasCome)
      await new Promise<void>((resolve) => {
        this.#onHangUp = resolve;
      });
    this.#hasCome = false;
  }
}
