import { StoppedError } from '../../core/errors.ts';
import { type Check, type CheckContext, judge } from './check.ts';
import { accessChecks, tokenCheck } from './checks/access.ts';
import { errorChecks } from './checks/errors.ts';
import { includedChecks } from './checks/included.ts';
import { listChecks } from './checks/lists.ts';
import { orderChecks } from './checks/orders.ts';
import { readRouteChecks } from './checks/routes.ts';
import { shipmentChecks } from './checks/shipments.ts';
import { timeChecks } from './checks/times.ts';
import { writeRouteChecks } from './checks/write-routes.ts';
import { cannotTell, type Judgement } from './finding.ts';

/** All checks that write nothing, in their order: what one learns, the following ones use. */
export const readOnlyChecks: readonly Check[] = [
  ...accessChecks,
  ...readRouteChecks,
  ...writeRouteChecks,
  ...listChecks,
  ...includedChecks,
  ...errorChecks,
  ...orderChecks,
  ...shipmentChecks,
  ...timeChecks,
];

/**
 * Runs checks one after the other. Without a token, no other check is run: repeated wrong passwords may lock an account.
 * @throws StoppedError if `stop` was aborted
 */
export async function runChecks(
  checks: readonly Check[],
  context: CheckContext,
  stop: AbortSignal,
): Promise<Judgement[]> {
  const token = await judge(tokenCheck, context);
  const judgements = [token];
  for (const check of checks) {
    if (stop.aborted) throw new StoppedError();
    const { id, section, assumption } = check;
    const skipped = { client: context.client.key, id, section, assumption, ...cannotTell('there is no token') };
    judgements.push(token.verdict === 'holds' ? await judge(check, context) : skipped);
  }
  return judgements;
}
