-- oldest code: 0.1.0
--
-- What our own transactions wait for each other by: rows and a table that no other role may lock. An advisory key can be
-- taken, and kept, by any role that may connect.

create table sync.locks (
  name text primary key
);
comment on table sync.locks is 'What transactions of the workers lock by a name, to come one after the other';
comment on column sync.locks.name is 'What is locked';

create table sync.feed_lock ();
comment on table sync.feed_lock is 'Has no columns: whoever writes to the feed locks it until the commit';

-- Waits for all who write by the former function, and whoever comes later finds the new one.
lock table fulfilment.changes in share row exclusive mode;
create or replace function sync.order_changes() returns trigger language plpgsql as $$
begin
  lock table sync.feed_lock in exclusive mode;
  return null;
end
$$;
