import type { ClientRecord, SettingsRecord } from './record.ts';

/** What differs between two records of settings. */
export interface SettingsChanges {
  readonly addedClients: readonly string[];
  readonly removedClients: readonly string[];
  readonly changedClients: readonly { readonly client: string; readonly what: readonly ClientPart[] }[];
  /** Jobs with another schedule, and other settings that a running worker takes over. */
  readonly values: readonly { readonly name: string; readonly from: string; readonly to: string }[];
  /** Settings that only a restart changes. */
  readonly restart: readonly string[];
}

/** The parts of a client that can change. */
export type ClientPart = 'account' | 'password' | 'time zone';

/** Finds what differs between the settings in use and others. */
export function findSettingsChanges(inUse: SettingsRecord, other: SettingsRecord): SettingsChanges {
  const [before, after] = [new Map(Object.entries(inUse.clients)), new Map(Object.entries(other.clients))];
  return {
    addedClients: [...after.keys()].filter((key) => !before.has(key)),
    removedClients: [...before.keys()].filter((key) => !after.has(key)),
    changedClients: [...after].flatMap(([client, to]) => {
      const from = before.get(client);
      const what = from === undefined ? [] : findChangedParts(from, to);
      return what.length === 0 ? [] : [{ client, what }];
    }),
    values: [...findChangedValues(inUse.schedules, other.schedules), ...findChangedValues(inUse.values, other.values)],
    restart: findChangedValues(inUse.fixed, other.fixed).map(({ name }) => name),
  };
}

function findChangedParts(from: ClientRecord, to: ClientRecord): ClientPart[] {
  return [
    ...(from.account === to.account ? [] : ['account' as const]),
    ...(from.password === to.password ? [] : ['password' as const]),
    ...(from.timeZone === to.timeZone ? [] : ['time zone' as const]),
  ];
}

/** Names that only one of two versions of the program knows have no value in the other, and are left out. */
function findChangedValues(from: Readonly<Record<string, string>>, to: Readonly<Record<string, string>>) {
  return Object.keys(to).flatMap((name) => {
    const [before, after] = [from[name], to[name]];
    return before === undefined || after === undefined || before === after ? [] : [{ name, from: before, to: after }];
  });
}

/** Describes each change that a running worker takes over, in a few words without secrets. */
export function describeSettingsChanges(changes: SettingsChanges): string[] {
  return [
    ...changes.addedClients.map((client) => `client ${client} added`),
    ...changes.removedClients.map((client) => `client ${client} removed`),
    ...changes.changedClients.map(({ client, what }) => `${what.join(' and ')} of client ${client}`),
    ...changes.values.map(({ name, from, to }) => `${name} ${from} -> ${to}`),
  ];
}
