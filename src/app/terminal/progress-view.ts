import type { Rescan } from '../../erp/rescan/rescans.ts';

const barWidth = 30;
const redrawMs = 100;
const lineMs = 5_000;

/** What a view writes to: standard error, so that results stay apart from it. */
export interface ProgressTarget {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows how far long work has come: a bar on a terminal, a line now and then elsewhere. */
export class ProgressView {
  readonly #label: string;
  readonly #target: ProgressTarget;
  // What is done within moments needs no progress.
  #shownAtMs = performance.now();
  #drawn = false;

  constructor(label: string, target: ProgressTarget = process.stderr) {
    this.#label = label;
    this.#target = target;
  }

  update(rescan: Rescan): void {
    const nowMs = performance.now();
    const terminal = this.#target.isTTY === true;
    if (nowMs - this.#shownAtMs < (terminal ? redrawMs : lineMs)) return;
    this.#shownAtMs = nowMs;
    this.#target.write(
      terminal
        ? `\r\u001b[K${describeProgress(this.#label, rescan, true)}`
        : `${describeProgress(this.#label, rescan, false)}\n`,
    );
    this.#drawn = terminal;
  }

  /** Takes the bar away, so that the result stands in its place. */
  end(): void {
    if (this.#drawn) this.#target.write('\r\u001b[K');
  }
}

/** `default shipments [######....] 61 %  6,100 read, 3 healed`; without rows here to measure by, counts alone. */
export function describeProgress(label: string, rescan: Rescan, withBar: boolean): string {
  const { fetched, expected, missing, stale } = rescan;
  const counts = `${fetched.toLocaleString('en')} read in ${rescan.pages.toLocaleString('en')} pages, ${missing + stale} healed`;
  if (expected === null || expected === 0) return `${label}  ${counts}`;
  // More may come than was stored here when it began: never more than all of it.
  const share = Math.min(1, fetched / expected);
  const filled = Math.round(share * barWidth);
  const bar = withBar ? ` [${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}]` : '';
  return `${label} ${bar} ${Math.floor(share * 100)} %  ${counts}`;
}
