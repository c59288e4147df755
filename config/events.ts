/** The receivers of business events. */

import { z } from 'zod';
import { describeFileError } from './config-error.ts';
import { parseJsonFile } from './files.ts';
import { readSecretFile } from './text-file.ts';
import { webhookSecret, webhookUrl } from './values.ts';

/** The types of business events. docs/events.md says when each one is made. */
const eventTypes = [
  'order.accepted',
  'order.rejected',
  'shipment.created',
  'shipment.shipped',
  'shipment.error',
  'shipment.tracking_changed',
  'parcel.tracking_ended',
  'return.processed',
  'inbound.completed',
  'stock.changed',
] as const;

export type EventType = (typeof eventTypes)[number];

/** A receiver of business events. */
export interface EventSubscriber {
  readonly name: string;
  /** The path may be secret. */
  readonly url: string;
  readonly secret: string | undefined;
  /** Null: all. */
  readonly types: readonly EventType[] | null;
  /** Null: all. */
  readonly clients: readonly string[] | null;
  /** True if names, addresses and other personal data are posted. */
  readonly personalData: boolean;
}

const subscribersSchema = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, 'must match [a-z][a-z0-9_-]{0,31}'),
      url: webhookUrl,
      secret: webhookSecret.optional(),
      secretFile: z.string().min(1).optional(),
      types: z.array(z.enum(eventTypes)).min(1).optional(),
      clients: z.array(z.string()).min(1).optional(),
      personalData: z.boolean().default(false),
    }),
  )
  .min(1, 'must name at least one subscriber');

/** Variables about events, as they were checked. */
interface EventVariables {
  readonly EVENT_WEBHOOK_URL?: string | undefined;
  readonly EVENT_WEBHOOK_SECRET?: string | undefined;
  readonly EVENT_PERSONAL_DATA?: boolean | undefined;
  readonly EVENT_SUBSCRIBERS_FILE?: string | undefined;
}

/**
 * Reads the subscribers: those of EVENT_SUBSCRIBERS_FILE, or the one of the variables. Adds a line
 * per problem.
 */
export function readSubscribers(
  given: EventVariables,
  problems: string[],
): readonly EventSubscriber[] {
  const {
    EVENT_WEBHOOK_URL: url,
    EVENT_WEBHOOK_SECRET: secret,
    EVENT_SUBSCRIBERS_FILE: file,
  } = given;

  if (file !== undefined) {
    // Without this, posts would be unsigned, or lack data, although a variable says otherwise.
    const others = Object.entries({
      EVENT_WEBHOOK_URL: url,
      EVENT_WEBHOOK_SECRET: secret,
      EVENT_PERSONAL_DATA: given.EVENT_PERSONAL_DATA,
    }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
    if (others.length > 0)
      problems.push(
        `EVENT_SUBSCRIBERS_FILE: is set together with ${others.join(', ')}; ` +
          'name url, secret and personalData of each subscriber in the file',
      );
    return readSubscribersFile(file, problems);
  }

  if (url === undefined) return [];
  const personalData = given.EVENT_PERSONAL_DATA ?? false;
  return [{ name: 'default', url, secret, types: null, clients: null, personalData }];
}

function readSubscribersFile(path: string, problems: string[]): EventSubscriber[] {
  const variable = 'EVENT_SUBSCRIBERS_FILE';
  const parsed = parseJsonFile(variable, path, subscribersSchema, problems) ?? [];

  return parsed.map(
    ({ secret, secretFile, types = null, clients = null, ...subscriber }, index) => {
      const { name } = subscriber;
      const addProblem = (problem: string) =>
        problems.push(`${variable}: subscriber ${name}${problem}`);

      if (parsed.findIndex((other) => other.name === name) < index) addProblem(' is named twice');
      if (secret !== undefined && secretFile !== undefined)
        addProblem(': give either secret or secretFile');

      if (secretFile === undefined) return { ...subscriber, secret, types, clients };

      try {
        const read = webhookSecret.safeParse(readSecretFile(secretFile));
        for (const { message } of read.error?.issues ?? []) addProblem(`: secretFile ${message}`);
        return { ...subscriber, secret: read.data, types, clients };
      } catch (error) {
        addProblem(`: secretFile cannot be read: ${describeFileError(error)}`);
        return { ...subscriber, secret, types, clients };
      }
    },
  );
}
