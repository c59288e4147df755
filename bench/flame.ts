/**
 * Draws a profile of Node (`--cpu-prof`) as a flame graph: `node bench/flame.ts FILE.cpuprofile FILE.svg [TITLE]`.
 * The width is time. A called function is drawn below its caller. Idle time is left out.
 */
import { readFileSync, writeFileSync } from 'node:fs';

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface Frame {
  readonly name: string;
  ms: number;
  readonly children: Map<string, Frame>;
}

const [width, rowHeight, deepest, narrowest] = [1_200, 17, 34, 0.6];
const escapeXml = (text: string) => text.replace(/[<>&"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const newFrame = (name: string): Frame => ({ name, ms: 0, children: new Map() });

/** Sums up the time of each call stack. */
function sumStacks({ nodes, samples, timeDeltas }: Profile): Frame {
  const selfMs = new Map<number, number>();
  for (const [index, id] of samples.entries()) selfMs.set(id, (selfMs.get(id) ?? 0) + (timeDeltas[index] ?? 0) / 1_000);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const root = newFrame('all');
  const add = (id: number, parent: Frame): number => {
    const node = byId.get(id);
    if (node === undefined) return 0;
    const { functionName, url } = node.callFrame;
    if (functionName === '(idle)') return 0;
    const name = `${functionName || 'anonymous'} ${url.split('/').slice(-2).join('/')}`.trim();
    const frame = parent.children.get(name) ?? newFrame(name);
    parent.children.set(name, frame);
    let ms = selfMs.get(id) ?? 0;
    for (const child of node.children ?? []) ms += add(child, frame);
    frame.ms += ms;
    return ms;
  };
  const [top] = nodes;
  for (const child of top?.children ?? []) root.ms += add(child, root);
  return root;
}

function draw(frame: Frame, x: number, depth: number, scale: number, out: string[]): void {
  const w = frame.ms * scale;
  if (w < narrowest || depth > deepest) return;
  const y = 24 + depth * rowHeight;
  const label = w < 40 ? '' : escapeXml(frame.name.slice(0, Math.floor(w / 6.2)));
  const hue = [...frame.name].reduce((sum, sign) => (sum * 31 + sign.charCodeAt(0)) % 55, 7);
  const title = `${escapeXml(frame.name)}: ${frame.ms.toFixed(0)} ms`;
  out.push(
    `<g><title>${title}</title><rect x="${x.toFixed(1)}" y="${y}" width="${w.toFixed(1)}" height="${rowHeight - 1}" fill="hsl(${hue},70%,70%)"/>` +
      `${label && `<text x="${(x + 2).toFixed(1)}" y="${y + 12}">${label}</text>`}</g>`,
  );
  let left = x;
  for (const child of [...frame.children.values()].sort((a, b) => b.ms - a.ms)) {
    draw(child, left, depth + 1, scale, out);
    left += child.ms * scale;
  }
}

const [, , from = '', to = '', title = ''] = process.argv;
const root = sumStacks(JSON.parse(readFileSync(from, 'utf8')) as Profile);
const out: string[] = [];
draw(root, 0, 0, width / root.ms, out);
const height = 24 + (deepest + 2) * rowHeight;
writeFileSync(
  to,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11"><title>${escapeXml(title)}</title>` +
    `<rect width="100%" height="100%" fill="#fff"/><text x="4" y="16">${escapeXml(title)}: ${(root.ms / 1_000).toFixed(1)} s of work</text>${out.join('')}</svg>\n`,
);
