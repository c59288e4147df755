import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { Random } from '../../../src/sandbox/random.ts';
import { toTokenEntry } from '../../helpers/campaigns/api-load.ts';
import {
  HostileProxy,
  sendHostileRequest,
  toHostilePayload,
  toHostileRequest,
} from '../../helpers/campaigns/hostile-input.ts';
import { useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Minutes of rounds; without them, there are 25 rounds. `npm run fuzz` sets them. */
const minutes = Number(process.env.FUZZ_MINUTES ?? 0);
const fewRounds = 25;
const seed = Number(process.env.FUZZ_SEED ?? 1);
const token = 'a-token-that-is-long-enough-to-be-taken';
/**
 * Memory that the worker must not need for any input. In thousands of rounds, more large inputs
 * come together than in 25.
 */
const mostMemoryMb = minutes > 0 ? 900 : 700;
/**
 * How long an answer of /livez may take: longer if other tests, which `npm run fuzz` does not run,
 * keep the machine busy.
 */
const patienceMs = minutes > 0 ? 1_000 : 10_000;

/** The longest time until /livez answered, and the largest resident memory of the worker. */
interface WorkerFigures {
  slowestMs: number;
  memoryMb: number;
  /** The largest of each minute: it must not grow. */
  readonly memoryMbByMinute: number[];
}

interface Watch {
  /** @throws Error if /livez gave no answer in time */
  readonly check: () => void;
  /** @throws Error as `check` does */
  readonly stop: () => Promise<WorkerFigures>;
}

/** Requests /livez again and again, and measures the memory of the worker. */
function watch(port: number, worker: CliProcess): Watch {
  let stopped = false;
  let failure: unknown;
  const seen: WorkerFigures = { slowestMs: 0, memoryMb: 0, memoryMbByMinute: [] };
  const beganAtMs = performance.now();
  const measure = async () => {
    while (!stopped) {
      const askedAtMs = performance.now();
      const signal = AbortSignal.timeout(patienceMs);
      const answer = await fetch(`http://127.0.0.1:${port}/livez`, { signal }).catch(
        (cause: unknown) => {
          throw new Error(
            `/livez gave no answer; the worker wrote: ${worker.output.slice(-3_000)}`,
            { cause },
          );
        },
      );
      expect(answer.status).toBe(200);
      await answer.arrayBuffer();
      seen.slowestMs = Math.max(seen.slowestMs, performance.now() - askedAtMs);
      const [, kb = '0'] =
        /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${worker.child.pid}/status`, 'utf8')) ?? [];
      const memoryMb = Math.round(Number(kb) / 1_024);
      const minute = Math.floor((performance.now() - beganAtMs) / 60_000);
      seen.memoryMb = Math.max(seen.memoryMb, memoryMb);
      seen.memoryMbByMinute[minute] = Math.max(seen.memoryMbByMinute[minute] ?? 0, memoryMb);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const measuring = measure().catch((error: unknown) => {
    failure = error;
  });
  const end = async () => {
    stopped = true;
    await measuring;
  };
  closers.push(end);

  const check = () => {
    if (failure) throw failure;
  };
  const stop = async () => {
    await end();
    check();
    return seen;
  };
  return { check, stop };
}

async function startWorker() {
  const [fair, other] = [await processes.sandbox(), await processes.sandbox()];
  for (const sandbox of [fair, other]) await sandbox.advance(3 * 86_400);
  const proxy = await HostileProxy.start(other.url, new Random(seed));
  closers.push(proxy.close);
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-hostile-'));
  closers.push(async () => rmSync(folder, { recursive: true }));
  const file = join(folder, 'clients.json');
  const account = { username: 'default', password: 'default' };
  const clients = [
    { key: 'default', baseUrl: fair.url, ...account },
    { key: 'hostile', baseUrl: proxy.url, ...account },
  ];
  writeFileSync(file, JSON.stringify(clients));
  const often = ['SHIPMENTS', 'ORDERS', 'RETURN_ITEMS', 'INBOUNDS'].map((job) => [
    `SCHEDULE_PULL_${job}`,
    '1s',
  ]);
  const tokens = join(folder, 'tokens.json');
  writeFileSync(tokens, JSON.stringify([toTokenEntry(token, 'hostile')]));
  const env = {
    DATABASE_URL: database.url,
    WAREHOUSE_CLIENTS_FILE: file,
    API_TOKENS_FILE: tokens,
    API_PORT: '0',
    ...Object.fromEntries(often),
    HTTP_TIMEOUT_MS: '2000',
    ADMIN_PORT: '0',
    ADMIN_TOKEN: token,
    LOG_LEVEL: 'info',
  };
  const worker = processes.cli(['worker'], env);
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  const api = JSON.parse(await worker.line('api_listening')) as { port: number };
  await worker.line('worker_started');
  return { fair, proxy, worker, port, apiPort: api.port, env };
}

/** Opens a session of the role that may write. */
async function connectAsWriter(): Promise<pg.Client> {
  const session = new pg.Client({ connectionString: database.url });
  await session.connect();
  closers.push(() => session.end());
  await session.query('set role fulfilment_writer');
  return session;
}

/** Posts a body to the API. Returns the status of the answer. */
async function postToApi(port: number, body: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const answer = await fetch(`http://127.0.0.1:${port}/v1/outbox`, {
    method: 'POST',
    headers,
    body,
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** A time for which a row is inserted: mostly none. */
const pickTime = (random: Random) =>
  random.chance(0.9)
    ? null
    : random.pick(['infinity', '-infinity', '9999-12-31', '1970-01-01', 'now']);

/** Number of hostile answers that is enough. More rounds send more rows and requests. */
const wantedAnswers = 300;

/** Ends all holds, and makes the rows and jobs of the hostile client due. */
const makeDue = () =>
  database.query(`
    with released as (
      delete from sync.service_health
    ), due as (
      update fulfilment.outbox set next_attempt_at = now()
      where client = 'hostile' and status in ('pending', 'unknown') and next_attempt_at > now()
    )
    update sync.jobs set next_at = least(next_at, sync.clock()) where client = 'hostile' and stream is not null and isfinite(next_at)`);

test(
  'hostile answers, rows and requests: the worker answers, stays small and serves the others',
  async () => {
    const { fair, proxy, worker, port, apiPort, env } = await startWorker();
    const random = new Random(seed + 1);
    const watched = watch(port, worker);
    const kinds = [...outboxKinds.map(({ name }) => name), 'order.unknown', '\u202e'];
    const writer = await connectAsWriter();
    const insert = (
      client: string,
      kind: string,
      reference: string,
      payload: string,
      notBefore: string | null = null,
    ) =>
      writer.query(
        'insert into fulfilment.outbox (client, kind, reference, payload, not_before) values ($1, $2, $3, $4, $5)',
        [client, kind, reference, payload, notBefore],
      );
    let refusedInserts = 0;
    let rounds = 0;
    const endMs = performance.now() + minutes * 60_000;
    for (; rounds < fewRounds || performance.now() < endMs; rounds++) {
      watched.check();
      const round = rounds;
      const reference = `SO-${round}`;
      const payload = toHostilePayload(orderPayload(reference), random);
      const client = random.chance(0.95) ? 'hostile' : `unknown-${round}`;
      await insert(client, random.pick(kinds), reference, payload, pickTime(random)).catch(
        () => refusedInserts++,
      );
      await writer.query(`select pg_notify('fulfilment_outbox', $1)`, [
        random.pick(['', 'hostile', reference, payload.slice(0, 2_000)]),
      ]);
      if (round % 10 === 0)
        await insert('default', 'order.create', reference, JSON.stringify(orderPayload(reference)));
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => sendHostileRequest(port, token, random)),
      );
      const body = toHostileRequest(reference, random);
      const status = await postToApi(apiPort, body);
      if (round % 5 === 0) await makeDue();
      for (const answer of answers) expect(answer).not.toMatch(/^HTTP\/1\.1 5(?!03)/);
      expect(status < 500 || status === 503, `${status} for ${body.slice(0, 1_000)}`).toBe(true);
    }
    await waitFor('many hostile answers', async () => {
      await makeDue();
      return proxy.changed > Math.min(rounds, wantedAnswers);
    });
    const open = `select from fulfilment.outbox where client = 'default' and status <> 'done'`;
    await waitFor(
      'the orders of the other client',
      async () => (await database.query(open)).length === 0,
    );
    const seen = await watched.stop();
    process.stdout.write(
      `hostile input: ${JSON.stringify({ rounds, seed, changedAnswers: proxy.changed, refusedInserts, ...seen })}\n`,
    );
    expect(worker.child.exitCode).toBeNull();
    expect(
      worker.lines.filter((line) =>
        /"event":"(admin_failed|uncaught|background_failed)"/.test(line),
      ),
    ).toEqual([]);
    expect(seen.memoryMb).toBeLessThan(mostMemoryMb);
    const compared = () => compareWithSandbox(database.db, fair.url, ['shipments', 'orders']);
    await waitFor('the tables of the other client', async () => (await compared()).length === 0);
    // The hostile client is read again once its service behaves.
    proxy.isHostile = false;
    expect(await runCommand(['run', 'pull-shipments', '--client', 'hostile'], env)).toMatchObject({
      code: 0,
    });
  },
  300_000 + minutes * 90_000,
);
