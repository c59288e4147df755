import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { ApiRight } from '../../../config/files.ts';
import { orderPayload } from '../order-payload.ts';
import { waitFor } from '../wait.ts';

/** An entry of API_TOKENS_FILE for a token. */
export const toTokenEntry = (
  token: string,
  client = 'default',
  rights: readonly ApiRight[] = ['read', 'write'],
) => ({
  name: token,
  sha256: createHash('sha256').update(token).digest('hex'),
  client,
  rights: [...rights],
  requestsPerSecond: 10_000,
});

/** Writes a file of tokens, all of the client `default` with both rights. */
export function writeTokens(path: string, tokens: readonly string[]): void {
  writeFileSync(path, JSON.stringify(tokens.map((token) => toTokenEntry(token))));
}

interface OrderLoad {
  readonly base: string;
  readonly token: string;
  readonly count: number;
  readonly slots: number;
  /** Called after each order that was accepted, with the number of them. */
  readonly onAccepted?: (accepted: number) => void;
}

/** What happened to the orders. */
interface LoadResult {
  readonly ids: readonly number[];
  /** When each order was first posted, by its place. */
  readonly postedAtMs: readonly number[];
  /** Number of posts that were repeated. */
  readonly repeats: number;
}

/**
 * Posts the orders API-0, API-1, … as a program does: many at a time, each repeated with its key
 * until it is accepted.
 */
export async function postOrders({
  base,
  token,
  count,
  slots,
  onAccepted,
}: OrderLoad): Promise<LoadResult> {
  const [ids, postedAtMs]: [number[], number[]] = [[], []];
  let [next, accepted, posts] = [0, 0, 0];
  const post = async (place: number): Promise<number | null> => {
    posts++;
    const reference = `API-${place}`;
    const body = JSON.stringify({
      kind: 'order.create',
      reference,
      payload: orderPayload(reference),
    });
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': reference,
    };
    try {
      const answer = await fetch(`${base}/v1/outbox`, { method: 'POST', body, headers });
      const text = await answer.text();
      if (answer.status === 202) return (JSON.parse(text) as { id: number }).id;
      if (answer.status >= 500) return null;
      throw new Error(`${reference}: ${answer.status} ${text}`);
    } catch (error) {
      // No answer: the worker is away, or was killed.
      if (error instanceof TypeError) return null;
      throw error;
    }
  };
  const work = async () => {
    for (let place = next++; place < count; place = next++) {
      postedAtMs[place] = Date.now();
      ids[place] = await waitFor(`order ${place} to be accepted`, () => post(place));
      onAccepted?.(++accepted);
    }
  };
  await Promise.all(Array.from({ length: slots }, work));
  return { ids, postedAtMs, repeats: posts - count };
}
