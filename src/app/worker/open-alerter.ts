import type { Config } from '../../../config/env.ts';
import { Alerter } from '../alerts/alerter.ts';
import { connectForWriting } from '../deps/database.ts';
import { openDispatcher } from '../deps/dispatcher.ts';
import type { Logger } from '../logging/logger.ts';

/** Maximum bytes of an answer to a post. */
const maxAnswerBytes = 1024 * 1024;

/** Number of connections of the alerter, and its statement timeout. Checks must not delay runs. */
const alertPoolSize = 2;
const alertQueryMs = 10_000;

/** Starts to post problems to ALERT_WEBHOOK_URL, with connections of its own. Does nothing if it is not set. */
export function openAlerter(config: Config, databaseUrl: string, log: Logger): { readonly close: () => Promise<void> } {
  const { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret, HTTP_TIMEOUT_MS: timeoutMs } = config;
  if (url === undefined) return { close: async () => undefined };
  const { db, close } = connectForWriting(databaseUrl, log, 'alerts', alertPoolSize, alertQueryMs);
  const dispatcher = openDispatcher(config, maxAnswerBytes);
  const webhook = { url, secret, dispatcher, timeoutMs };
  const alerter = new Alerter({ config, db, log, webhook });
  alerter.start();
  return {
    close: async () => {
      await alerter.close();
      await dispatcher.destroy();
      await close();
    },
  };
}
