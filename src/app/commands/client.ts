import { readConfig } from '../../../config/env.ts';
import { identityOf } from '../../../config/files.ts';
import { acceptIdentity } from '../../erp/maintenance/accept-identity.ts';
import { type KnownClient, readClients } from '../../erp/runs/clients.ts';
import { operatorName } from '../cli/operator.ts';
import { print } from '../cli/print.ts';
import { UsageError } from '../cli/usage.ts';
import { withDatabase } from '../cli/with-database.ts';
import { formatTable, lookOfState } from '../terminal/table.ts';
import { identified } from '../worker/runner.ts';

export interface ClientOptions {
  readonly json?: boolean;
  readonly keepCursors?: boolean;
}

/** One client, as it is set up here and as the database knows it. */
interface Listed {
  readonly client: string;
  /** Null: it is not set up here. */
  readonly baseUrl: string | null;
  readonly timeZone: string | null;
  readonly state: string;
  readonly because: string | null;
  /** When a client that is held back is tried again. */
  readonly holdUntil: Date | null;
}

/** Shows the clients, and what keeps them from being read. */
export async function clientListCommand({ json }: ClientOptions): Promise<number> {
  const configured = readConfig({ database: true, clients: false }).clients;
  return withDatabase('client', async (db) => {
    const known = new Map((await readClients(db)).map((row) => [row.client, row]));
    const keys = [...new Set([...configured.map(({ key }) => key), ...known.keys()])].sort();
    const rows = keys.map((client): Listed => {
      const own = configured.find(({ key }) => key === client);
      const row = known.get(client);
      const fits = own === undefined || row === undefined || row.identity === identityOf(own);
      const { baseUrl, timeZone } = own ?? { baseUrl: null, timeZone: null };
      return { client, baseUrl: baseUrl?.href ?? null, timeZone, ...stateOf(row, own !== undefined, fits) };
    });
    if (json) print(JSON.stringify(rows, null, 2));
    else if (rows.length === 0)
      print('No client is set up; see WAREHOUSE_BASE_URL and WAREHOUSE_CLIENTS_FILE in .env.example');
    else print(formatClients(rows));
    return 0;
  });
}

const free = { holdUntil: null };

function stateOf(
  row: KnownClient | undefined,
  isConfigured: boolean,
  fits: boolean,
): Pick<Listed, 'state' | 'because' | 'holdUntil'> {
  if (!isConfigured) return { ...free, state: 'not set up here', because: 'its rows stay as they are' };
  if (row === undefined) return { ...free, state: 'new', because: 'no worker has met it yet' };
  if (!fits) {
    const because = `its rows come from ${row.baseUrl} or another account there; if this one is meant: fulfilment-sync client accept-identity ${row.client}`;
    return { ...free, state: 'parked', because };
  }
  if (row.holdCode === null) return { ...free, state: 'ok', because: null };
  const because = `${row.holdReason}; tried again at ${row.holdUntil?.toISOString()}, or at once with: fulfilment-sync run <job> --client ${row.client}`;
  return { state: row.holdCode, because, holdUntil: row.holdUntil };
}

function formatClients(rows: readonly Listed[]): string {
  const table = formatTable(
    ['client', 'base URL', 'zone', 'state'],
    rows.map(({ client, baseUrl, timeZone, state }) => [client, baseUrl ?? '-', timeZone ?? '-', state]),
    { look: (text, heading) => (heading === 'state' ? lookOfState(text) : null) },
  );
  const notes = rows.flatMap(({ client, because }) => (because === null ? [] : [`${client}: ${because}`]));
  return [table, notes.join('\n')].filter((part) => part !== '').join('\n\n');
}

/**
 * Accepts the account that is set up here for a client whose rows came from another one.
 * @throws UsageError where the client is not set up
 */
export async function acceptIdentityCommand(key: string, { keepCursors = false }: ClientOptions): Promise<number> {
  const { clients } = readConfig({ database: true, clients: true });
  const client = clients.find((known) => known.key === key);
  if (client === undefined)
    throw new UsageError(`There is no client ${key}; known are ${clients.map((known) => known.key).join(', ')}`);
  return withDatabase('client', async (db) => {
    const { accepted, formerBaseUrl, waitingRows, buriedRows } = await acceptIdentity(
      db,
      identified(client),
      keepCursors,
      operatorName(),
    );
    if (!accepted) {
      print(`${key}: that is the account its rows come from already; nothing was changed`);
      return 0;
    }
    print(
      `${key}: ${client.baseUrl.href} is accepted${formerBaseUrl === null ? '' : `; until now it was ${formerBaseUrl}`}`,
    );
    print(keepCursors ? 'Its streams go on where they stood.' : 'Its streams are read anew from the beginning.');
    if (!keepCursors && formerBaseUrl !== null)
      print('Rows of the former service stay in the tables; for a clean beginning give the client another key.');
    if (buriedRows > 0)
      print(
        `${buriedRows} outbox rows whose outcome at the former service is not known are dead: outbox list --status dead`,
      );
    if (waitingRows > 0)
      print(
        `${waitingRows} pending outbox rows go to the new service; to keep one back: fulfilment-sync outbox cancel <id>`,
      );
    return 0;
  });
}
