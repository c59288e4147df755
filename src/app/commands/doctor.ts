import { styleText } from 'node:util';
import { readConfig } from '../../../config/env.ts';
import { countWatched } from '../../erp/reports/diagnosis.ts';
import { type KnownClient, readClients } from '../../erp/runs/clients.ts';
import { connectDatabase } from '../deps/database.ts';
import { checkClients } from '../doctor/check-clients.ts';
import { checkDatabase } from '../doctor/check-database.ts';
import { checkPushes } from '../doctor/check-pushes.ts';
import { checkQueue } from '../doctor/check-queue.ts';
import { checkSessions } from '../doctor/check-sessions.ts';
import { checkSettings } from '../doctor/check-settings.ts';
import type { Finding } from '../doctor/finding.ts';
import { silentLogger } from '../logging/logger.ts';

export interface DoctorOptions {
  readonly json?: boolean;
}

/** Looks at everything a worker needs, changes nothing, and says what to do. */
export async function doctorCommand({ json }: DoctorOptions): Promise<number> {
  const config = readConfig({ database: true, clients: true });
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', silentLogger, 'doctor', 2);
  try {
    const database = await checkDatabase(db);
    const isUsable = database.every(({ state }) => state !== 'fail');
    const known: readonly KnownClient[] = isUsable ? await readClients(db) : [];
    const watched = isUsable ? await countWatched(db) : null;
    const pushes = isUsable ? await checkPushes(db) : [];
    const [sessions, queue, clients, settings] = await Promise.all([
      isUsable ? checkSessions(config, silentLogger) : [],
      // In a database that cannot be used there is nothing more to find.
      config.REDIS_URL === undefined && !isUsable ? [] : checkQueue(config, silentLogger),
      checkClients(config, known),
      checkSettings(config, watched),
    ]);
    const findings = [...database, ...pushes, ...sessions, ...queue, ...clients, ...settings];
    process.stdout.write(`${json ? JSON.stringify(findings, null, 2) : formatFindings(findings)}\n`);
    return findings.some(({ state }) => state === 'fail') ? 1 : 0;
  } finally {
    await close();
  }
}

const looks = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

/** A line each, with what to do below it. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const lines = findings.flatMap(({ check, state, found, remedy }) => [
    `${styleText(looks[state], state.padEnd(4))}  ${check.padEnd(width)}  ${found}`,
    ...(remedy === null ? [] : [`${' '.repeat(6 + width)}  -> ${remedy}`]),
  ]);
  const count = (state: Finding['state']) => findings.filter((finding) => finding.state === state).length;
  return [...lines, '', `${count('ok')} ok, ${count('warn')} to look at, ${count('fail')} to mend`].join('\n');
}
