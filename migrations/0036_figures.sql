-- oldest code: 0.1.0

-- Figures for the charts of the pages. A worker makes them each minute from tables that exist; no push and no page of a
-- list writes here.
create table sync.figures (
  client text not null,
  minutes smallint not null check (minutes in (5, 60)),
  at timestamptz not null,
  measure text not null,
  part text not null default '',
  value double precision not null,
  primary key (client, minutes, at, measure, part)
) with (fillfactor = 70);
create index figures_by_time on sync.figures (minutes, at);
comment on table sync.figures is 'What happened in spans of 5 minutes (kept for two days) and of an hour (kept for 32 days), for the charts of the pages';
comment on column sync.figures.client is 'Client key; empty: all clients together';
comment on column sync.figures.minutes is 'Length of the span: 5 or 60 minutes';
comment on column sync.figures.at is 'Beginning of the span';
comment on column sync.figures.measure is
  'rows (that polls wrote), pushes (outcomes of attempts), waits (rows done, by time since their insert), oldest_pending or stream_age (seconds, the largest seen)';
comment on column sync.figures.part is
  'rows and stream_age: stream; pushes: outcome; waits: n, for a time from 2^(n/4) to 2^((n+1)/4) milliseconds; else empty';
comment on column sync.figures.value is 'A number of rows or attempts, or seconds';

create table sync.figure_marks (
  at timestamptz primary key,
  attempt_id bigint not null
);
comment on table sync.figure_marks is 'Up to where the figures are made. The last mark is the end of the last roll-up';
comment on column sync.figure_marks.at is 'Time of a roll-up. What was committed three minutes before it is in sync.figures';
comment on column sync.figure_marks.attempt_id is
  'Attempts of transactions that began at this time or later have larger ids in sync.outbox_attempts';

-- Figures begin now: with a history, at the next full 5 minutes, so that no row before this migration is read.
insert into sync.figure_marks (at, attempt_id)
select date_bin('5 minutes', now(), 'epoch') + case when max(a.id) is null then interval '0' else interval '5 minutes' end,
  coalesce(max(a.id), 0)
from sync.outbox_attempts a;
