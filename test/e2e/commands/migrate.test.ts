import { connect, createServer, type Server } from 'node:net';
import getPort from 'get-port';
import { afterEach, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';

const database = useDatabase({ migrated: false });
const processes = useProcesses();
let proxy: Server | undefined;
afterEach(() => {
  proxy?.close();
});

/** Returns the address of the test database behind a port on which nobody listens yet. */
async function prepareLateDatabase() {
  const port = await getPort({ host: '127.0.0.1' });
  const url = Object.assign(new URL(database.url), {
    hostname: '127.0.0.1',
    port: String(port),
  }).href;
  return {
    url,
    start: () => {
      proxy = createServer((near) => {
        const far = connect(Number(new URL(database.url).port), '127.0.0.1');
        // If one side breaks off, the other is closed too.
        near.on('error', () => far.destroy()).pipe(far);
        far.on('error', () => near.destroy()).pipe(near);
      });
      return new Promise<void>((resolve) => proxy?.listen(port, '127.0.0.1', resolve));
    },
  };
}

test('migrate --wait waits for a database that starts late', async () => {
  const late = await prepareLateDatabase();
  const migrate = processes.cli(['migrate', '--wait', '60'], { DATABASE_URL: late.url });
  expect(await migrate.line('Waiting up to 60 s for the database')).toContain('ECONNREFUSED');
  await late.start();
  expect((await migrate.ended).code).toBe(0);
  expect(migrate.output).toContain('Applied 0001_foundation');
});

test('migrate fails without a database after its --wait, and says what to check', async () => {
  const { url } = await prepareLateDatabase();
  const migrate = processes.cli(['migrate', '--wait', '1'], { DATABASE_URL: url });
  expect((await migrate.ended).code).toBe(1);
  expect(migrate.output).toMatch(
    /^Waiting up to 1 s .*\n.*the connection is refused.*\nCheck DATABASE_URL/,
  );
});
