/** What has to be closed at the end: in reverse order, one after the other. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];

  /** Adds something that was opened. Returns it. */
  add<T extends { close: () => Promise<unknown> }>(part: T): T {
    this.#closers.unshift(() => part.close());
    return part;
  }

  /** Closes everything that was added. */
  async closeAll(): Promise<void> {
    for (const close of this.#closers) await close();
  }
}
