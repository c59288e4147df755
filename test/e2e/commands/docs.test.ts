import { readdirSync, readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const root = new URL('../../../', import.meta.url);

const documents = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(new URL('docs/', root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const readBlocks = (file: string, language: string) =>
  [
    ...readFileSync(new URL(file, root), 'utf8').matchAll(
      new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'),
    ),
  ].map(([, text = '']) => text);

/** The page whose commands another test runs. */
const testedElsewhere = 'docs/api.md';
/**
 * Lines that a test cannot run, or that run the tests. CI covers them, or tests of the files that
 * they use.
 */
const notRunHere =
  /^(sh deploy\/create-secrets\.sh$|npm install && npm (run demo|test)$|cp \.env\.example \.env( |$)|docker compose --profile sandbox (up --build|down)$)/;
/** Commands that run until they are stopped, with the text that each prints when it is ready. */
const lasting: Readonly<Record<string, string>> = {
  worker: 'worker_started',
  sandbox: 'Sandbox at',
};

async function startAndStop(args: readonly string[], env: Record<string, string>, said: string) {
  const cli = processes.cli(args, env);
  await cli.line(said);
  cli.kill('SIGTERM');
  const { code } = await cli.ended;
  return { code, output: cli.output };
}

test('the SQL of the README does what it says', async () => {
  const sandbox = await processes.sandbox();
  const often = { SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' };
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, often));
  await worker.line('worker_started');
  const [ask = '', look = '', ...more] = readBlocks('README.md', 'sql');
  expect(more).toEqual([]);
  const run = async (statements: string) =>
    (await sql.raw<Record<string, unknown>>(statements).execute(database.db)).rows;
  await run(ask);
  const [status = '', lines = ''] = look.split(/(?<=;)\n/);
  await waitFor('the order', async () => (await run(status))[0]?.status === 'done');
  await sandbox.advance(86_400);
  await waitFor('its shipment', async () => (await run(lines))[0]?.state !== 'accepted');
  expect(await run(lines)).toMatchObject([{ state: expect.any(String) }]);
});

test('every command in the docs exists and succeeds', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.advance(10 * 86_400);
  const env = workerEnv(database.url, sandbox);
  const lines = documents
    .filter((file) => file !== testedElsewhere)
    .flatMap((file) =>
      readBlocks(file, 'sh').flatMap((block) =>
        block.split('\n').map((line) => line.replace(/ +#.*$| --env-file \.env$/g, '').trim()),
      ),
    )
    .filter((line) => line !== '' && !notRunHere.test(line));
  expect(lines.length).toBeGreaterThan(8);
  for (const line of lines) {
    const [, words = ''] =
      /^(?:npm run --silent fulfilment-sync --|fulfilment-sync) (.+)$/.exec(line) ?? [];
    expect([line, words !== '']).toEqual([line, true]);
    const args = words.split(' ');
    const said = lasting[args[0] ?? ''];
    const { code, output } =
      said === undefined ? await runCommand(args, env) : await startAndStop(args, env, said);
    expect([line, code, code === 0 ? '' : output]).toEqual([line, 0, '']);
  }
});
