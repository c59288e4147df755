import { Alerter } from '../alerts/alerter.ts';
import { openDispatcher } from '../deps/dispatcher.ts';
import type { RunnerDeps } from './runner.ts';

/** Maximum bytes of an answer to a post. */
const maxAnswerBytes = 1024 * 1024;

/** Starts to post problems to ALERT_WEBHOOK_URL. Does nothing if it is not set. */
export function openAlerter({ config, db, log }: Pick<RunnerDeps, 'config' | 'db' | 'log'>): {
  readonly close: () => Promise<void>;
} {
  const { ALERT_WEBHOOK_URL: url, ALERT_WEBHOOK_SECRET: secret, HTTP_TIMEOUT_MS: timeoutMs } = config;
  if (url === undefined) return { close: async () => undefined };
  const dispatcher = openDispatcher(config, maxAnswerBytes);
  const alerter = new Alerter({ config, db, log, webhook: { url, secret, dispatcher, timeoutMs } });
  alerter.start();
  return {
    close: async () => {
      await alerter.close();
      await dispatcher.destroy();
    },
  };
}
