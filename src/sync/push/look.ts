import { z } from 'zod';
import type { Lane } from '../../erp/outbox/settle.ts';

/** When to look again, and whether anything was due that could be pushed. */
export interface Look {
  readonly inMs: number;
  readonly dueNow: boolean;
}

/** What `fulfilment.outbox_cancel` notifies. */
const wokenSchema = z.object({ woken: z.object({ client: z.string(), family: z.string(), reference: z.string() }) });

/** The lane that a notification names; null where it names none, as anybody may notify. */
export function readLane(payload: string): Lane | null {
  try {
    return wokenSchema.parse(JSON.parse(payload)).woken;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return null;
    throw error;
  }
}

/** Nothing is due. */
export const never: Look = { inMs: Number.POSITIVE_INFINITY, dueNow: false };
/** What several looks come to. */
export const soonest = (looks: readonly Look[]): Look => ({
  inMs: Math.min(never.inMs, ...looks.map(({ inMs }) => inMs)),
  dueNow: looks.some(({ dueNow }) => dueNow),
});
