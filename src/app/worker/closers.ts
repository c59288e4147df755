/** Everything that has to be closed at the end. It is closed in reverse order, one after the other. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];

  /** Adds an opened part, and returns it. */
  add<T extends { close: () => Promise<unknown> }>(part: T): T {
    this.#closers.unshift(() => part.close());
    return part;
  }

  /** Closes everything that was added. */
  async closeAll(): Promise<void> {
    for (const close of this.#closers) await close();
  }
}
