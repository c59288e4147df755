/** A script that changes the world in virtual time (src/sandbox/scenario/player.ts). */
export interface Script {
  /** Performs the steps that are due. */
  play(): void;
  /** Starts over, because the world did. */
  restart(): void;
  /** What `GET /_sandbox/scenario` answers. */
  readonly progress: Readonly<Record<string, unknown>>;
}
