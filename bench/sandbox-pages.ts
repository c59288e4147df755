/**
 * Measures how fast the sandbox serves pages of 100 shipments from a store of a million, and whether the last page
 * costs more than the first: `npm run --silent bench:sandbox -- [SHIPMENTS]`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { fileURLToPath } from 'node:url';

const shipments = Number(process.argv[2] ?? 1_000_000);
const batch = 100_000;
const client = 'default';
/** The seeded shipments take these statuses by turns, so that a filter on the status excludes some. */
const statuses = ['SHIPPED', 'SHIPPED', 'SHIPPED', 'READY_TO_PICK', 'ERROR'];
const rounds = 5;
const pagesARound = 1_000;
const concurrency = 4;
const main = fileURLToPath(new URL('../src/app/main.ts', import.meta.url));
const agent = new Agent({ keepAlive: true, maxSockets: concurrency });

const sandbox = spawn(process.execPath, [main, 'sandbox', '--port', '0', '--speed', '0', '--orders-per-day', '0'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const [line] = await once(sandbox.stdout, 'data');
  const base = /at (\S+)/.exec(String(line))?.[1] ?? '';
  await measure(base);
} finally {
  sandbox.kill('SIGTERM');
  agent.destroy();
}

async function measure(base: string): Promise<void> {
  const seeded = performance.now();
  for (let left = shipments; left > 0; left -= batch)
    await call(base, 'POST', '/_sandbox/seed', { client, shipments: Math.min(batch, left), statuses, spreadDays: 60 });
  printLine(
    'seeded',
    `${shipments} shipments in ${((performance.now() - seeded) / 1_000).toFixed(1)} s, RSS ${readRssMb()} MB`,
  );
  const form = new URLSearchParams({ grant_type: 'password', username: client, password: client });
  const answer = await fetch(`${base}/token`, { method: 'POST', body: form });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  for (const [name, filter] of [
    ['plain', ''],
    ['with items', '&include=shipmentItems'],
    ['one status', '&filter[status][in]=SHIPPED'],
    ['two statuses', '&filter[status][in]=READY_TO_PICK,ERROR'],
    ['days', `&filter[shippedOn][gt]=${new Date(Date.now() - 40 * 86_400_000).toISOString().slice(0, 10)}`],
  ] as const)
    await compare(base, token, name, `/v3/shipments?page[size]=100${filter}`);
  await call(base, 'PUT', '/_sandbox/switches', { cursor: 'offset' });
  await compare(base, token, 'offset', '/v3/shipments?page[size]=100', shipments - 100);
  await call(base, 'PUT', '/_sandbox/switches', {});
  const [walkMs, pages] = await walk(base, token);
  printLine(
    'walk',
    `${pages} pages one after the other, by links.next: ${Math.round((pages * 60_000) / walkMs)} pages a minute`,
  );
  printLine('memory', `RSS ${readRssMb()} MB afterwards`);
}

/** Requests the first and the last page by turns. Prints pages per minute, and the ratio of their times. */
async function compare(base: string, token: string, name: string, first: string, cursor?: number): Promise<void> {
  const last = `${first}&page[cursor]=${cursor ?? (await findLastCursor(base, token, first))}`;
  await timeRequests(base, token, first);
  const [rates, ratios]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const [head, tail] = [await timeRequests(base, token, first), await timeRequests(base, token, last)];
    rates.push((pagesARound * 2 * 60_000) / (head + tail));
    ratios.push(tail / head);
  }
  printLine(name, `${Math.round(median(rates))} pages a minute; last page / first page ${median(ratios).toFixed(2)}`);
}

/** Finds the cursor of the last full page by bisection. */
async function findLastCursor(base: string, token: string, first: string): Promise<number> {
  let [low, high] = [0, 10 * shipments + 10_000];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const { data } = await readPage(base, token, `${first}&page[cursor]=${middle}`);
    if (data.length === 100) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Returns the milliseconds of `pagesARound` requests for one page. */
async function timeRequests(base: string, token: string, path: string): Promise<number> {
  const startMs = performance.now();
  let left = pagesARound;
  const lane = async () => {
    while (left-- > 0) await fetchBody(base, token, path);
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return performance.now() - startMs;
}

async function walk(base: string, token: string): Promise<[number, number]> {
  const startMs = performance.now();
  let [pages, path]: [number, string | null] = [0, '/v3/shipments?page[size]=100'];
  while (path !== null && pages < 5_000) {
    const { links } = await readPage(base, token, path);
    const next: string | null = links.next?.href ?? null;
    path = next === null ? null : next.slice(base.length);
    pages++;
  }
  return [performance.now() - startMs, pages];
}

async function readPage(base: string, token: string, path: string) {
  const text = (await fetchBody(base, token, path)).toString();
  return JSON.parse(text) as { data: unknown[]; links: { next: { href: string } | null } };
}

async function fetchBody(base: string, token: string, path: string): Promise<Buffer> {
  const sent = request(`${base}${path}`, { agent, headers: { authorization: `bearer ${token}` } });
  sent.end();
  const [answer] = await once(sent, 'response');
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part);
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
  return Buffer.concat(parts);
}

async function call(base: string, method: string, path: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${base}${path}`, { method, headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}

function readRssMb(): number {
  const status = readFileSync(`/proc/${sandbox.pid}/status`, 'utf8');
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024);
}

function median(values: readonly number[]): number {
  return [...values].sort((left, right) => left - right)[values.length >> 1] ?? Number.NaN;
}

function printLine(what: string, text: string): void {
  process.stdout.write(`${what.padEnd(14)}${text}\n`);
}
