import { CodedError, describeError, StoppedError } from '../../core/errors.ts';
import { removeQuotes } from '../../core/quote.ts';
import { accessChecks, errorChecks, tokenCheck } from './access-checks.ts';
import { type Check, type CheckContext, cannotTell, type Judgement } from './check.ts';
import { listChecks } from './list-checks.ts';
import { resourceChecks } from './resource-checks.ts';
import { routeChecks } from './route-checks.ts';

/** All checks that write nothing, in their order: what one learns, the following ones use. */
export const readOnlyChecks: readonly Check[] = [
  ...accessChecks,
  ...routeChecks,
  ...listChecks,
  ...errorChecks,
  ...resourceChecks,
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

/**
 * Runs one check. What it finds is a setting from then on, so that the following checks use it. An error of the service
 * or of the network is a finding, too.
 */
async function judge(check: Check, context: CheckContext): Promise<Judgement> {
  const finding = await check.run(context).catch((error: unknown) => {
    if (!(error instanceof CodedError) || error.code === 'stopped') throw error;
    // An answer may repeat what belongs to a person.
    return cannotTell(removeQuotes(describeError(error)));
  });
  for (const setting of finding.settings)
    if (setting.kind === 'entry') context.service.learn(setting.operation, setting.entry);
  const { id, section, assumption } = check;
  return { client: context.client.key, id, section, assumption, ...finding };
}
