/**
 * Checks of a service's promises: what is asked, what an answer says, and the settings that follow from it.
 */

import type { WarehouseClient } from '../../../config/files.ts';
import { CodedError, describeError } from '../../core/errors.ts';
import { removeQuotes } from '../../core/quote.ts';
import { cannotTell, type Finding, type Judgement } from './finding.ts';
import type { Service } from './service.ts';

/** What every check gets. */
export interface CheckContext {
  readonly client: WarehouseClient;
  readonly service: Service;
  /** True if the track-trace list, which the service gives once an hour, may be requested. */
  readonly askTrackTrace: boolean;
}

/** One promise of the interface that can be checked by asking the service. */
export interface Check {
  /** A short name in words with hyphens. */
  readonly id: string;
  /** Section of docs/interface.md. */
  readonly section: string;
  readonly assumption: string;
  /** True if the assumption is quoted from a row of docs/assumptions.md. */
  readonly quoted?: boolean;
  /** The check that asks less, and is not run together with this one. */
  readonly replaces?: string;
  readonly run: (context: CheckContext) => Promise<Finding>;
}

/**
 * Runs one check. What it finds is a setting from then on, so that the following checks use it. An error of the service
 * or of the network is a finding, too.
 */
export async function judge(check: Check, context: CheckContext): Promise<Judgement> {
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
