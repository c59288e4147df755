import { styleText } from 'node:util';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../../config/env.ts';
import { silentLogger } from '../../core/logger.ts';
import { toVisible } from '../../core/quote.ts';
import { connectDatabase, toAddress, toDirectUrl } from '../../db/connect.ts';
import type { Database } from '../../db/pool.ts';
import {
  type CheckResult,
  checkClients,
  checkConfiguration,
  checkDatabase,
  checkFiles,
  checkInserts,
  checkKinds,
  checkPlace,
  checkProblems,
  checkQueue,
  checkSequences,
  checkSessions,
} from '../../operate/doctor/checks.ts';
import { readOverview } from '../../operate/health/overview.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { readClients } from '../../service/sql/clients.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  printJson,
  printStyled,
} from '../command-line.ts';

/** Checks everything that a worker needs, and prints what to do. Changes nothing. */
async function doctorCommand(
  { json }: CommonOptions,
  envFile: string | undefined,
): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const { db, close } = connectDatabase(toAddress(config), silentLogger, {
    name: 'doctor',
    max: 2,
  });

  try {
    const database = await checkDatabase(db);
    const isUsable = database.every(({ state }) => state !== 'fail');
    const known = isUsable ? await readClients(db) : [];

    const [ofDatabase, queue, clients] = await Promise.all([
      isUsable ? checkUsableDatabase(db, config) : [],
      // The queue in a database that cannot be used needs no check.
      config.REDIS_URL === undefined && !isUsable ? [] : checkQueue(config, silentLogger),
      checkClients(config, known),
    ]);

    const findings = [
      ...database,
      ...ofDatabase,
      ...queue,
      ...clients,
      ...checkConfiguration(config, envFile),
      ...checkFiles(envFile),
    ];

    if (json) printJson(findings);
    else printStyled(formatFindings(findings));

    return findings.some(({ state }) => state === 'fail') ? 1 : 0;
  } finally {
    await close();
  }
}

async function checkUsableDatabase(db: Database, config: Config): Promise<CheckResult[]> {
  // Places and inserts are those of the address that pushes use.
  const direct = connectDatabase(toDirectUrl(config), silentLogger, { name: 'doctor', max: 1 });
  try {
    const { problems } = await readOverview(direct.db, config);
    return [
      await checkKinds(db, config.operations),
      ...checkProblems(problems),
      ...(await checkPlace(direct.db)),
      ...(await checkInserts(direct.db)),
      ...(await checkSequences(direct.db)),
      ...(await checkSessions(config)),
    ];
  } finally {
    await direct.close();
  }
}

const stateStyles = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

/** Formats each finding as a line, with its remedy below, and the counts at the end. */
function formatFindings(findings: readonly CheckResult[]): string {
  const width = findings.reduce((longest, { check }) => Math.max(longest, check.length), 0);
  const lines = findings.flatMap(({ check, state, found, remedy }) => {
    const label = styleText(stateStyles[state], state.padEnd(4));
    const line = `${label}  ${toVisible(`${check.padEnd(width)}  ${found}`)}`;
    return remedy === null ? [line] : [line, toVisible(`${' '.repeat(6 + width)}  -> ${remedy}`)];
  });

  const count = (state: CheckResult['state']) =>
    findings.filter((finding) => finding.state === state).length;
  const warnings = formatCount(count('warn'), 'warning');
  const problems = formatCount(count('fail'), 'problem');
  return [...lines, '', `${count('ok')} ok, ${warnings}, ${problems}`].join('\n');
}

/** Adds `doctor`. */
export function addDoctorCommand(cli: Command): void {
  addCommand(cli, {
    name: 'doctor',
    description: 'check everything that a worker needs, and say what to do; changes nothing',
    notes: 'Exits with 1 if there is a problem.',
  })
    .option(...asJson)
    .action(
      exitWith((options: CommonOptions) =>
        doctorCommand(options, cli.opts<{ envFile?: string }>().envFile),
      ),
    );
}
