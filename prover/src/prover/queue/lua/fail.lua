-- Ends a running job as failed. After a deterministic failure equal bodies find this job.
local job, found = held(args.id, args.fence)
if not job then
    return reply({done = found ~= nil and found.state == 'failed' and found.fence == args.fence})
end
release(args.id, job)
settle(args.id, job, 'failed', args.failure_ms, args.deterministic, 'error', args.error)
report(job.cancel and 'cancelled' or 'failed', args.id, job, args.error)
return reply({done = true})
