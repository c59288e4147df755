/**
 * The page for a screen on the wall: few large figures on a dark ground. It is read from some metres, and nobody uses
 * its keyboard.
 */

import { type Html, html } from '../../../core/html.ts';
import { formatSpan } from '../../../core/time.ts';
import type { Overview } from '../../health/overview.ts';
import type { Series } from '../../health/trends.ts';
import type { Tone } from './view.ts';
import { renderDocument } from './view.ts';

/** A figure of the wall screen. */
interface WallFigure {
  readonly name: string;
  readonly value: string;
  readonly tone: Exclude<Tone, 'note'>;
}

/** What the wall screen shows. */
export interface Wall {
  readonly state: Exclude<Tone, 'note'>;
  readonly headline: string;
  readonly figures: readonly WallFigure[];
}

/** A pending row that is older than this, in seconds, is shown as a warning. */
const slowRowS = 1_800;

/** Formats a number in few characters, such as 19.3K. */
const shorten = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Chooses the figures of the wall screen. */
export function toWall({ problems, stale, snapshot, charts }: Overview): Wall {
  const { outbox, jobs, streams } = snapshot;
  const bad = problems.filter(({ severity }) => severity === 'bad').length;
  const warned = problems.filter(({ severity }) => severity === 'warn').length;
  const state = bad + stale.length > 0 || jobs.length === 0 ? 'bad' : warned > 0 ? 'warn' : 'good';
  const headline =
    jobs.length === 0
      ? 'No worker yet'
      : bad > 0
        ? `${bad} ${bad === 1 ? 'problem' : 'problems'}`
        : stale.length > 0
          ? `${stale.length} late`
          : warned > 0
            ? `${warned} ${warned === 1 ? 'warning' : 'warnings'}`
            : 'Healthy';
  const sum = (member: 'dead' | 'toDecide' | 'pending' | 'sending' | 'doneLastDay') =>
    outbox.reduce((total, row) => total + row[member], 0);
  const oldest = Math.max(0, ...outbox.map(({ oldestMovingSeconds }) => oldestMovingSeconds ?? 0));
  const day = charts[0]?.drawn;
  const latest = (series: readonly Series[] | undefined, name: string) =>
    series?.find((one) => one.name === name)?.values.findLast((value) => value !== null);
  const p99 = latest(day?.waits, 'p99');
  const stuck = sum('dead') + sum('toDecide');
  return {
    state,
    headline,
    figures: [
      { name: 'stuck rows', value: shorten.format(stuck), tone: stuck > 0 ? 'bad' : 'good' },
      { name: 'waiting rows', value: shorten.format(sum('pending') + sum('sending')), tone: 'good' },
      { name: 'oldest waiting', value: formatSpan(oldest), tone: oldest > slowRowS ? 'warn' : 'good' },
      { name: 'late jobs', value: String(stale.length), tone: stale.length > 0 ? 'bad' : 'good' },
      { name: 'done in 24 h', value: shorten.format(sum('doneLastDay')), tone: 'good' },
      {
        name: 'rows read in 24 h',
        value: shorten.format(streams.reduce((total, { changedLastDay }) => total + changedLastDay, 0)),
        tone: 'good',
      },
      { name: 'sent per minute', value: shorten.format(latest(day?.pushes, 'done') ?? 0), tone: 'good' },
      {
        name: 'p99 to done',
        value: p99 == null ? '–' : p99 < 10 ? `${p99.toFixed(1)}s` : formatSpan(p99),
        tone: 'good',
      },
    ],
  };
}

/** Renders the parts of the wall screen, by the ids of their elements. */
export function renderWallParts(overview: Overview): Readonly<Record<string, Html>> {
  const { state, headline, figures } = toWall(overview);
  return {
    headline: html`<h1 class="${state}">${headline}</h1>`,
    figures: html`<ul>${figures.map(({ name, value, tone }) => html`<li class="${tone}"><b>${value}</b> ${name}</li>`)}</ul>`,
    clock: html`${overview.snapshot.now.toISOString().slice(11, 16)} UTC`,
  };
}

/** Renders `/wall`. */
export function renderWallPage(overview: Overview): string {
  const { headline, figures, clock } = renderWallParts(overview);
  return renderDocument(
    { title: 'Wall', view: 'wall', live: true },
    html`<main id="main"><div id="headline" role="status">${headline}</div>
<div id="figures">${figures}</div><p><span id="clock">${clock}</span> <a href="/">Overview</a></p></main>`,
  );
}
