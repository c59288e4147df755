import { formatSpan } from '../../core/time.ts';
import type { StoredAlert } from '../../erp/alerts/open-alerts.ts';

export type AlertEvent = 'problem.began' | 'problem.ended';

/** What is posted to ALERT_WEBHOOK_URL. Chat programs such as Slack show `text`. */
export interface PostBody {
  readonly type: AlertEvent;
  readonly timestamp: string;
  readonly data: {
    /** The same for the beginning and the end of a problem. */
    readonly id: string;
    readonly code: string;
    readonly severity: 'bad' | 'warn';
    /** Null: every client. */
    readonly client: string | null;
    readonly subject: string;
    readonly text: string;
    readonly remedy: string | null;
    readonly since: string;
  };
  readonly text: string;
}

/** Creates the body of a post. */
export function toPostBody(type: AlertEvent, alert: StoredAlert, now: Date): PostBody {
  const { id, code, severity, client, subject, text, remedy, since } = alert;
  const lasted = formatSpan((now.getTime() - since.getTime()) / 1_000);
  const line =
    type === 'problem.began'
      ? `${severity === 'bad' ? 'Problem' : 'Warning'}: ${subject}: ${text}${remedy === null ? '' : `; ${remedy}`}`
      : `Ended after ${lasted}: ${subject}: ${text}`;
  return {
    type,
    timestamp: now.toISOString(),
    data: { id, code, severity, client, subject, text, remedy, since: since.toISOString() },
    text: `fulfilment-sync: ${escapeForChat(line)}`,
  };
}

/** Escapes the characters that begin a link or a mention in Slack. */
const escapeForChat = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
