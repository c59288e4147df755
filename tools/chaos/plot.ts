/** Measurements of a worker and its database at one moment. */
export interface Sample {
  readonly seconds: number;
  readonly memoryMb: number;
  readonly descriptors: number;
  readonly connections: number;
  readonly deadRows: number;
  readonly liveRows: number;
  readonly databaseMb: number;
  readonly orders: number;
  readonly runs: number;
}

export interface Soak {
  readonly version: string;
  readonly minutes: number;
  /** Virtual seconds per second. */
  readonly speed: number;
  readonly ordersPerSecond: number;
  readonly samples: readonly Sample[];
}

const panels: readonly { readonly member: keyof Sample; readonly title: string }[] = [
  { member: 'memoryMb', title: 'Resident memory of the worker, MB' },
  { member: 'descriptors', title: 'Open file descriptors of the worker' },
  { member: 'connections', title: 'Connections to Postgres' },
  { member: 'deadRows', title: 'Dead rows in all tables' },
  { member: 'liveRows', title: 'Live rows in all tables (what there is to know: it grows)' },
];

const width = 800;
const left = 70;
const height = 110;
const gap = 50;

/** Draws a soak as SVG: one panel per measurement, all with the same time axis, each from zero. */
export function drawSoak({ samples, minutes }: Soak): string {
  const drawn = panels.map(({ member, title }, index) =>
    drawPanel(samples, minutes, member, title, 30 + index * (height + gap)),
  );
  const total = 30 + panels.length * (height + gap);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="What a soak of ${minutes} minutes used">
<rect width="${width}" height="${total}" fill="#ffffff"/>
${drawn.join('\n')}
</svg>
`;
}

function drawPanel(
  samples: readonly Sample[],
  minutes: number,
  member: keyof Sample,
  title: string,
  top: number,
): string {
  const highest = roundUp(Math.max(1, ...samples.map((sample) => sample[member])));
  const x = (seconds: number) =>
    (left + (seconds / (minutes * 60)) * (width - left - 20)).toFixed(1);
  const y = (value: number) => (top + height - (value / highest) * height).toFixed(1);
  const points = samples.map((sample) => `${x(sample.seconds)},${y(sample[member])}`).join(' ');
  const ticks = Array.from({ length: 7 }, (_, index) => (minutes * index) / 6);
  const times = ticks.map(
    (minute) =>
      `<text x="${x(minute * 60)}" y="${top + height + 16}" text-anchor="middle" fill="#57606a">${+minute.toFixed(1)} min</text>`,
  );
  return `<text x="${left}" y="${top - 8}" fill="#1f2328" font-weight="600">${title}</text>
<path d="M${left} ${top}V${top + height}H${width - 20}" fill="none" stroke="#afb8c1"/>
<text x="${left - 8}" y="${top + 10}" text-anchor="end" fill="#57606a">${highest.toLocaleString('en')}</text>
<text x="${left - 8}" y="${top + height}" text-anchor="end" fill="#57606a">0</text>
${times.join('')}
<polyline points="${points}" fill="none" stroke="#0969da" stroke-width="1.5"/>`;
}

/** Rounds up to a number with one digit followed by zeros. */
function roundUp(value: number): number {
  const step = 10 ** Math.floor(Math.log10(value));
  return Math.ceil(value / step) * step;
}
