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
give_back(args.id, job, 'requeued', args.reason)
return reply({done = true})
