/**
 * Ages the outbox, so that absences count at once: an absence counts only some time after the last
 * attempt. Rows that were written in the last 3 seconds are not aged, because a request that was
 * cut off may still take effect.
 */
export const ageAbsencesSql = `
  update fulfilment.outbox o set next_attempt_at = case when status in ('pending', 'unknown') and next_attempt_at is not null
      then clock_timestamp() end, written_at = written_at - interval '6 minutes', absent_at = absent_at - interval '1 minute'
  from (select id from fulfilment.outbox where status <> 'sending'
    and (written_at is null or written_at < clock_timestamp() - interval '3 seconds') for update skip locked) quiet
  where o.id = quiet.id`;
