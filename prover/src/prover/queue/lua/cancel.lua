-- Ends a waiting job; asks the worker of a running one to stop. From then on an equal body is a new job. A job that was
-- submitted more than once stays.
allow_when_full()
local job = read(args.id)
if job and call('HEXISTS', job_key(args.id), 'shared') == 1 then return reply({}) end
if job and job.state == 'queued' then
    dequeue(args.id, job, false)
    settle_failed(args.id, job, 'cancelled', 'cancelled')
    trim_wake_ups(job.queue, WAKE_UPS_TO_SPARE)
elseif job and job.state == 'processing' then
    call('HSET', job_key(args.id), 'cancel', 1)
    forget_digest(args.id, job)
    announce(args.id)
end
return reply({})
