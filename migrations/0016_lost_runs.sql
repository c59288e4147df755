-- oldest code: 0.1.0
--
-- Closes runs that an earlier version left open: where a page was committed in the very moment in which its lease was taken,
-- the sweep did not see the run that it belonged to.
update sync.runs r set status = 'abandoned', finished_at = now()
where r.status = 'running' and not exists (
  select from sync.leases l
  where l.client = r.client and l.name = r.job and l.token = r.lease_token and l.expires_at is not null
);
