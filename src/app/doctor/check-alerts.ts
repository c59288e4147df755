import type { Config } from '../../../config/env.ts';
import { type Finding, ok, warn } from './finding.ts';

/** Checks where problems are posted to. Shows only the origin, because the path may be secret. */
export function checkAlerts({
  ALERT_WEBHOOK_URL: url,
  ALERT_WEBHOOK_SECRET: secret,
}: Pick<Config, 'ALERT_WEBHOOK_URL' | 'ALERT_WEBHOOK_SECRET'>): readonly Finding[] {
  if (url === undefined) return [];
  const found = `problems are posted to ${new URL(url).origin}`;
  if (secret !== undefined) return [ok('alerts', `${found}, signed`)];
  const remedy = 'set ALERT_WEBHOOK_SECRET if the receiver can check signatures; Slack cannot';
  return [warn('alerts', `${found}, but not signed`, remedy)];
}
