-- Requeues a running job.
local job, found = held(args.id, args.fence)
if not job then
    local back = found ~= nil and (found.state == 'queued' or found.state == 'failed')
    return reply({done = back and found.fence == args.fence})
end
allow_when_full()
if not args.count_attempt then
    job.attempt = call('HINCRBY', job_key(args.id), 'attempt', -1)
end
local queued
if args.waits_on then -- without its time with the worker
    queued = job.queued + math.max(0, now - (tonumber(job.started) or now))
end
give_back(args.id, job, 'requeued', args.reason, queued)
return reply({done = true})
