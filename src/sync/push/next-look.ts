import { z } from 'zod';
import type { Lane } from '../../erp/outbox/settle-rows.ts';

/** When to look for due rows again, and whether any row was due that could be pushed. */
export interface Look {
  readonly inMs: number;
  readonly dueNow: boolean;
}

/** Milliseconds until the next look if rows are due that nobody can claim now. */
export const idleLookMs = 1_000;
/** Minimum milliseconds between two looks while a send rate is in force. */
export const minLookMs = 10;

/** The payload that `fulfilment.outbox_cancel` notifies. */
const wokenSchema = z.object({ woken: z.object({ client: z.string(), family: z.string(), reference: z.string() }) });

/** Reads the lane that a notification names. Returns null if it names none: any program may send a notification. */
export function readLane(payload: string): Lane | null {
  try {
    return wokenSchema.parse(JSON.parse(payload)).woken;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return null;
    throw error;
  }
}

/** No row is due. */
export const neverLook: Look = { inMs: Number.POSITIVE_INFINITY, dueNow: false };
/** Combines several looks: the soonest time, and whether any row was due. */
export const findSoonest = (looks: readonly Look[]): Look => ({
  inMs: Math.min(neverLook.inMs, ...looks.map(({ inMs }) => inMs)),
  dueNow: looks.some(({ dueNow }) => dueNow),
});
