-- oldest code: 0.1.0
-- What operators ask of the ledger without reading all of it.
create index runs_troubled on sync.runs (id) where status in ('failed', 'abandoned', 'stopped');

comment on column sync.audit.action is 'paused, resumed, run_requested, identity_accepted, schedulers_set, pruned, or outbox_ and what was done: retry, done, cancel, replace, reveal';
comment on column sync.audit.by is 'Worker, who called the command, or page with the address it was asked from';
