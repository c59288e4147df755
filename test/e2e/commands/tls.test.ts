import { afterEach, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { useRedis } from '../../helpers/redis.ts';
import { startTlsFront, tlsFile } from '../../helpers/services/tls-front.ts';

const database = useDatabase();
const redis = useRedis();
const processes = useProcesses();
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const trusted = { NODE_EXTRA_CA_CERTS: tlsFile('authority-cert') };

/** Returns the settings of a worker whose three servers are behind TLS. */
async function prepareServers(parameters: Readonly<Record<string, string>>) {
  const sandbox = await processes.sandbox();
  const open = async (url: URL, scheme: string) => {
    const front = await startTlsFront(url);
    closers.push(front.close);
    return front.url.href.replace(/^\w+:/, `${scheme}:`);
  };
  const databaseUrl = new URL(await open(new URL(database.url), 'postgres'));
  for (const [name, value] of Object.entries({ sslmode: 'verify-full', ...parameters }))
    databaseUrl.searchParams.set(name, value);
  return {
    ...workerEnv(databaseUrl.href, sandbox),
    REDIS_URL: await open(new URL(redis.url), 'rediss'),
    WAREHOUSE_BASE_URL: await open(sandbox.url, 'https'),
  };
}

/** Returns what `doctor` says of the three servers, each as a line. */
async function diagnose(env: Record<string, string>) {
  // A process of its own: Node reads NODE_EXTRA_CA_CERTS when it starts.
  const cli = processes.cli(['doctor', '--json'], env);
  await cli.ended;
  const findings: { check: string; state: string; found: string; remedy: string | null }[] =
    JSON.parse(cli.output.slice(cli.output.indexOf('[')));
  const read = (check: string) => {
    const finding = findings.find((one) => one.check === check);
    return finding?.state === 'ok' ? 'ok' : `${finding?.found} -> ${finding?.remedy}`;
  };
  return { postgres: read('database'), redis: read('queue'), service: read('default: service') };
}

test.skipIf(!redis.available)('Postgres, Redis and the service are reached by TLS', async () => {
  const byParameter = { sslrootcert: tlsFile('authority-cert') };
  for (const parameters of [byParameter, {}])
    expect(await diagnose({ ...(await prepareServers(parameters)), ...trusted })).toEqual({
      postgres: 'ok',
      redis: 'ok',
      service: 'ok',
    });
});

test.skipIf(!redis.available)(
  'doctor names TLS, the setting and what to do if it knows no authority',
  async () => {
    expect(await diagnose(await prepareServers({}))).toEqual({
      postgres: expect.stringMatching(
        /^TLS: the certificate of Postgres is not accepted.* -> .*sslrootcert in DATABASE_URL/,
      ),
      redis: expect.stringMatching(
        /^TLS: the certificate of Redis is not accepted.* -> .*NODE_EXTRA_CA_CERTS/,
      ),
      service: expect.stringMatching(
        /TLS: the certificate of the service is not accepted.*; .*NODE_EXTRA_CA_CERTS/,
      ),
    });
  },
);

test('a client certificate of DATABASE_URL is sent', async () => {
  const client = { sslcert: tlsFile('client-cert'), sslkey: tlsFile('client-key') };
  const front = await startTlsFront(new URL(database.url), { asksForCertificate: true });
  closers.push(front.close);
  const url = front.url;
  for (const [name, value] of Object.entries({ ...client, sslrootcert: tlsFile('authority-cert') }))
    url.searchParams.set(name, value);
  url.searchParams.set('sslmode', 'verify-full');
  const migrate = processes.cli(['migrate'], { DATABASE_URL: url.href });
  expect([(await migrate.ended).code, migrate.output]).toEqual([0, 'The database is up to date.']);
});
