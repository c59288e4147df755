import type { Rescan } from '../../erp/rescan/rescans.ts';

const barWidth = 30;
const redrawMs = 100;
const lineMs = 5_000;

/** The stream that a view writes to. It is usually standard error, so that standard output holds only results. */
export interface ProgressTarget {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows the progress of a rescan: a bar on a terminal, else a line every 5 seconds. */
export class ProgressView {
  readonly #label: string;
  readonly #target: ProgressTarget;
  // Work that ends before the first interval is over shows no progress.
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

  /** Clears the bar, so that the result is printed in its place. */
  end(): void {
    if (this.#drawn) this.#target.write('\r\u001b[K');
  }
}

/**
 * Describes the progress, as in `default shipments [######....] 61 %  6,100 read in 61 pages, 3 healed`. Returns the
 * counts alone if the number of expected rows is not known or 0.
 */
function describeProgress(label: string, rescan: Rescan, withBar: boolean): string {
  const { fetched, expected, missing, stale } = rescan;
  const counts = `${fetched.toLocaleString('en')} read in ${rescan.pages.toLocaleString('en')} pages, ${missing + stale} healed`;
  if (expected === null || expected === 0) return `${label}  ${counts}`;
  // The service may list more resources than the tables held at the beginning.
  const share = Math.min(1, fetched / expected);
  const filled = Math.round(share * barWidth);
  const bar = withBar ? ` [${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}]` : '';
  return `${label} ${bar} ${Math.floor(share * 100)} %  ${counts}`;
}
