/**
 * Lets the time go by, by hand, that an absence needs to be believed (contracts, Outcome rules); but not of rows that were
 * written a moment ago, as effects of requests that were cut may yet come.
 */
export const beliefBroughtAbout = `
  update fulfilment.outbox o set next_attempt_at = case when status in ('pending', 'unknown') and next_attempt_at is not null
      then clock_timestamp() end, written_at = written_at - interval '2 minutes', absent_at = absent_at - interval '1 minute'
  from (select id from fulfilment.outbox where status <> 'sending'
    and (written_at is null or written_at < clock_timestamp() - interval '3 seconds') for update skip locked) quiet
  where o.id = quiet.id`;
