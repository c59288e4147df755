-- oldest code: 0.1.0

-- Comments and messages in plain words; nothing else changes.
comment on column fulfilment.changes.key is 'Key of the row, if its table has no bigint id';
comment on column fulfilment.outbox.next_attempt_at is
  'pending: not sent before this time; unknown: when it is looked up, or null if an operator has to decide';
comment on column fulfilment.outbox.refusal is
  'While unknown: the reason with which the service refused the row. The row becomes dead with it unless a look-up finds the change';
comment on column fulfilment.orders.pick_up_point is 'Pick-up point as received, if it was included';
comment on column fulfilment.return_items.restock_on is 'restockOn, read in the client''s zone if it names no zone';
comment on column fulfilment.return_items.return_merchandise_authorization_item_id is
  'Line of the return authorization that announced it; null if there is none';
comment on column fulfilment.inbounds.inbound_packing_slip_id is
  'Inbound packing slip that announced it; null if there is none';
comment on column fulfilment.stock_levels.stock is 'Pieces; null if the service has not told any yet';
comment on column fulfilment.track_trace_events.package_number is 'packageNumber; empty if the item has none';
comment on column fulfilment.track_traces.package_number is 'packageNumber; empty if the item has none';
comment on table fulfilment.track_trace_events is
  'One row for each change of a package''s status. Changes between two readings, an hour apart, are not seen';
comment on column fulfilment.track_traces.unlisted_since is
  'Since when the package is not on the list any more; its final status is not seen';
comment on table fulfilment.main_shipping_method_warehouses is
  'The shipping method that each warehouse uses for a main shipping method';
comment on view fulfilment.outbox_open is 'Rows of the outbox that are not done or cancelled, and what each row waits for';
comment on view fulfilment.open_inbound_expectations is 'Announced goods that have not arrived completely';

comment on table sync.absences is 'Rows that complete lists lacked, of streams whose resources cannot be read by id';
comment on column sync.absences.pass is 'poll or reconcile: each compares with its own lists';
comment on column sync.absences.walks is 'Number of complete walks in a row that lacked the row';
comment on column sync.absences.since is 'When a walk first lacked the row';
comment on table sync.audit is 'What operators did, and what workers repaired by themselves';
comment on column sync.audit.at is 'Time of the action';
comment on column sync.audit.by is 'Worker, user of the command, or page with the address that asked for it';
comment on column sync.audit.client is 'Client key; null if the action is not about one client';
comment on column sync.audit.detail is 'Details, as text';
comment on table sync.clients is 'The account that each client''s rows come from, and why reading from it is held';
comment on column sync.clients.identity is
  'Fingerprint of the accepted base URL and user name; a worker with another account reads and pushes nothing';
comment on column sync.clients.base_url is 'Accepted base URL';
comment on column sync.clients.accepted_at is 'When the account was accepted';
comment on column sync.clients.offered_identity is 'Fingerprint of another account that a worker or command was set up with';
comment on column sync.clients.offered_base_url is 'Base URL of that other account';
comment on column sync.clients.offered_at is 'When a worker or command last came with that other account';
comment on column sync.clients.hold_code is
  'Why scheduled runs are held: credentials_refused, no_answer or asked_to_wait; null if they are not';
comment on column sync.clients.hold_reason is 'The reason of the hold, as text';
comment on column sync.clients.hold_since is 'When the hold began';
comment on column sync.clients.hold_until is 'When one run, the probe, tries again; the other runs follow if it succeeds';
comment on column sync.clients.hold_times is 'Number of failed probes';
comment on column sync.clients.served_at is 'When a worker that pushes for the client was last seen, to half a minute';
comment on table sync.confirmations is
  'Rows that a reading found unchanged while another reader of the stream was active; an older reading must not undo them';
comment on table sync.cursors is 'Place of each walk over a list; written together with the rows of its page';
comment on column sync.cursors.query is 'Query of the last page that held rows; the next walk begins with it';
comment on column sync.cursors.meaning is 'What page[cursor] was seen to contain: id, offset, opaque, or unknown';
comment on table sync.feed_lock is 'Has no columns. A transaction that writes to the feed locks it until the commit';
comment on table sync.feed_mark is 'The part of the feed that was pruned';
comment on column sync.findings.late_seconds is
  'Age of the row''s newest date when it was found, by the service''s clock: the lookback that would have found it. Null for '
  'extras, and for rows that changed after the last complete poll';
comment on table sync.findings is 'Differences that reconciliations found and healed, one row each';
comment on table sync.freshness is 'How complete each stream is';
comment on column sync.freshness.complete_at is 'When the last poll that read everything began, by the service''s clock';
comment on column sync.freshness.usual_fetched is 'Resources that a poll usually reads (moving average)';
comment on table sync.gaps is 'Spans that the service no longer lists and that no poll had read';
comment on column sync.gaps.to_at is 'End of the span: later changes were still listed';
comment on table sync.gates is 'Calls that may be made only once in a while, by all workers together';
comment on column sync.gates.identity is
  'Fingerprint of base URL and user name: two client keys with the same account share a gate';
comment on column sync.gates.client is 'Client that last passed the gate';
comment on column sync.gates.next_at is 'When the gate opens again';
comment on column sync.gates.taken_at is 'When the gate was last passed';
comment on column sync.gates.finished_at is 'When that call ended; null while it runs, or if its worker was lost';
comment on column sync.gates.taken is 'Number of times that the gate was passed';
comment on column sync.gates.spent is 'Number of times that a worker was lost between passing the gate and the end of the call';
comment on table sync.jobs is 'One row per client and job: when it is due, and how its last run ended';
comment on column sync.jobs.last_error is 'Error of the last run; null after a success';
comment on column sync.jobs.last_success_at is 'End of the last run that succeeded';
comment on column sync.jobs.last_skip_reason is 'Reason of the last skipped or missed run';
comment on column sync.jobs.skips is 'Runs that were skipped, or missed because no worker could start them in time';
comment on column sync.jobs.last_skip_at is 'When a run was last skipped or missed';
comment on column sync.jobs.warnings is 'Warnings of the last run';
comment on table sync.leases is 'The worker that may write for a client and job. A writer with an older token is rejected';
comment on column sync.leases.holder is 'Worker that holds the lease; null if it was released';
comment on column sync.leases.acquired_at is 'When the present or last holder acquired it';
comment on column sync.leases.expires_at is 'When another worker may take it over; null if it was released';
comment on table sync.locks is 'Names that transactions of the workers lock, so that they run one after the other';
comment on table sync.outbox_attempts is 'History of outbox rows: every attempt, every look-up, and what operators did';
comment on column sync.outbox_attempts.step is
  'sent (or tried to), looked up, taken over from a lost worker, or the action of an operator';
comment on column sync.outbox_attempts.became is 'Status that the row got';
comment on column sync.outbox_attempts.error is 'The error, as text';
comment on column sync.pauses.since is 'When the job was paused';
comment on table sync.proven_kinds is
  'Kinds that the service has carried out before, with method and path. A 403 of such a kind does not mean a wrong path';
comment on column sync.proven_kinds.method is 'HTTP method; empty if the kind was carried out before this table existed';
comment on column sync.proven_kinds.path is 'Path below the base URL; empty if method is';
comment on column sync.proven_kinds.proven_at is 'When it was recorded';
comment on column sync.push_database.changed_at is
  'When a worker first found that this database is not the accepted one; null if it is';
comment on table sync.push_holds is
  'Health of clients and of their kinds, for all workers: held, limited to some rows at a time, or with failed rows';
comment on column sync.push_holds.kind is 'Kind; empty for the whole client';
comment on column sync.push_holds.reason is 'The reason, as text';
comment on column sync.push_holds.since is 'When the hold began';
comment on column sync.push_holds.until is 'When the hold ends, or may be probed';
comment on column sync.push_holds.times is 'Number of holds in a row';
comment on column sync.push_holds.probe is
  'True if the hold of a client ends only when the service has answered a question, not only by time';
comment on column sync.push_holds.failures is
  'Distinct rows (for a client: questions) that failed since one was successful';
comment on column sync.push_holds.send_window is
  'Rows that all workers together may send at the same time after the hold; null: no such limit';
comment on table sync.push_rates is 'Send rate of clients whose service refused rows with 429, for all workers together';
comment on column sync.push_rates.per_second is 'Rows per second: halved by a 429, and a tenth of a row more for each row that is sent';
comment on column sync.push_rates.filled_at is 'When allowance was last computed';
comment on column sync.push_rates.since is 'When the first of these 429s came';
comment on column sync.push_rates.refused is 'Number of 429s since then';
comment on table sync.push_workers is 'Workers that push, and what each of them confirms after a failover';
comment on column sync.quarantine.member_path is 'Member that could not be decoded';
comment on table sync.quarantine is 'Resources that could not be decoded or stored, kept whole. A later good version releases them';
comment on column sync.quarantine.resource_key is 'The id if it can be read, else a hash of the document';
comment on column sync.quarantine.resource_id is 'The id, if it can be read';
comment on column sync.quarantine.document is
  'The resource as received, with its included resources, as JSON text (jsonb refuses some valid JSON)';
comment on column sync.quarantine.run_worker is 'Worker that last received it';
comment on column sync.quarantine.run_job is 'Job of the run that last received it';
comment on column sync.quarantine.times is 'Number of times that it was received';
comment on column sync.quarantine.first_seen_at is 'When it was first received';
comment on column sync.quarantine.last_seen_at is 'When it was last received';
comment on column sync.quarantine.read_no is 'Number of its reading, so that a replay cannot undo a newer reading';
comment on table sync.rereads is 'Resources that wait to be read by id, with growing pauses';
comment on column sync.rereads.tries is 'Number of reads so far that did not help';
comment on column sync.rereads.next_try_at is 'Time of the next read';
comment on column sync.rereads.last_reason is 'Why it is read again';
comment on table sync.rescans is
  'Reconciliations and backfills. One that was interrupted continues from its last committed page';
comment on column sync.rescans.kind is 'reconcile (compares and heals the tables) or backfill (reads a span of days again)';
comment on column sync.rescans.background is 'True if workers continue it; false if only its command does';
comment on column sync.rescans.windows is 'Date windows that it walks one after the other, {after, before}, both exclusive';
comment on column sync.rescans.step is 'Number of windows that were walked to their end';
comment on column sync.rescans.query is 'Query of the last page that held rows';
comment on column sync.rescans.meaning is 'What page[cursor] was seen to contain';
comment on column sync.rescans.full_list is
  'False if the service did not show a list to its end; then nothing follows from a missing row';
comment on column sync.rescans.error is 'Error with which it failed';
comment on column sync.rescans.expected is 'Rows stored in its windows when it began, to measure progress';
comment on column sync.rescans.missing is 'Resources that were not in the tables';
comment on column sync.rescans.stale is 'Resources that differed from the tables';
comment on column sync.rescans.extra is 'Rows of the tables that the service does not have';
comment on table sync.runs is 'Runs that wrote something or failed. Other runs are only counted in sync.jobs';
comment on column sync.runs.unchanged is 'Resources without a change';
comment on column sync.runs.stale is 'Readings that were not applied because a newer one was stored';
comment on column sync.runs.warnings is 'Warnings of the run';
comment on column sync.runs.error is 'The error, as text';
comment on column sync.settings_reads.read_at is 'When they were last read successfully; null before the first time';

comment on table fulfilment.outbox is
  'Requests of the ERP to the service: insert client, kind, reference and payload, and read status and result';
comment on column fulfilment.outbox.id is
  'Number of the row; rows of one lane (client, family, reference) are sent in this order';
comment on column fulfilment.outbox.kind is 'What the row asks for, such as order.create (docs/outbox.md); at most 64 characters';
comment on column fulfilment.outbox.reference is
  'External order number, external reference, slip reference or sku; at most 200 characters';
comment on column fulfilment.outbox.payload is
  'Contents of the request, at most 16 MB of JSON text; fulfilment.outbox_schema(kind) returns its JSON Schema';
comment on column fulfilment.outbox.status is
  'pending, sending, unknown (the service may have carried it out), done, dead (refused or given up) or cancelled';
comment on column fulfilment.outbox.attempts is 'Number of sends; look-ups do not count';
comment on column fulfilment.outbox.lease_until is 'While sending: when another worker may take the row over';
comment on column fulfilment.outbox.last_error is 'Why the row is not done, as text';
comment on column fulfilment.outbox.result is 'Answer of the service; docs/outbox.md lists its members by kind';
comment on column fulfilment.outbox.claim_no is
  'Number of the last claim. It identifies late outcomes, and is the read_no of the answer';
comment on column fulfilment.outbox.sent_at is
  'While sending: set before the request is written; null means that no request was written';
comment on column fulfilment.outbox.written_at is 'Last attempt that the service may have carried out; null: none';
comment on column fulfilment.outbox.absences is 'Look-ups since the last attempt that did not find the change, and count';
comment on column fulfilment.outbox.absent_at is 'Time of the last look-up that did not find the change, and counts';
comment on column fulfilment.outbox.bounded_from is
  'PUSH_MAX_AGE counts from here: the first attempt that counted, or the last retry or replacement by a person';
comment on column fulfilment.outbox.bounded_attempts is 'Attempts before bounded_from; PUSH_MAX_ATTEMPTS does not count them';
comment on column fulfilment.outbox.unburnt is
  'Sends since the last attempt that counted which were refused with 429 or for the token; each makes the pause longer';
comment on column fulfilment.outbox.database_mark is
  'Identity of the database in which the row was inserted (sync.database_mark); null: the row is older than this column';
comment on function fulfilment.changes_since is
  'Returns at most max changes after a seq; raises an error if some of them were pruned';
comment on function fulfilment.outbox_replace is
  'Gives a pending or dead row another payload; the row keeps its place in its lane and its history';
comment on function fulfilment.outbox_cancel is 'Cancels a pending or dead row for good, which frees its lane';
comment on function fulfilment.outbox_schema is 'Returns the JSON Schema of the payload of a kind';
comment on function sync.clock is 'Returns the time of schedules and gates: the clock of the database';

CREATE OR REPLACE FUNCTION fulfilment.changes_since(after bigint, max integer DEFAULT 1000)
 RETURNS SETOF fulfilment.changes
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  pruned bigint := (select pruned_until from sync.feed_mark);
  given_out bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('fulfilment.changes', 'seq')::regclass), 0);
  -- Only committed entries count: a reader that continued from a seq that is still being written would miss it.
  newest bigint := coalesce((select c.seq from fulfilment.changes c order by c.seq desc limit 1), pruned);
begin
  if after is null or after < 0 then
    raise exception 'after must be the last seq that was read, or 0 to begin' using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  if after < pruned then
    raise exception 'changes after % are no longer all kept (pruned until %): read the tables again, then continue from %',
      after, pruned, newest using errcode = '22023';
  end if;
  if after > given_out then
    raise exception 'seq % was never used here: was the database restored? Read the tables again, then continue from %',
      after, newest using errcode = '22023';
  end if;
  -- seq grows in the order of commits, so a later commit cannot add an entry before those read here.
  return query select c.* from fulfilment.changes c where c.seq > after order by c.seq limit max;
end
$function$;
