-- oldest code: 0.1.0

-- Which stream a job polls. Until now, SQL took it from the name of the job.
alter table sync.jobs add column stream text;
comment on column sync.jobs.stream is 'Stream that the job polls; null for jobs that poll none';

update sync.jobs set stream = substring(job from 6)
where job in ('pull-shipments', 'pull-return-items', 'pull-inbounds', 'pull-inbound-packing-slips', 'pull-orders');
