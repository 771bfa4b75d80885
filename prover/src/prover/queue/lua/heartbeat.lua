-- Renews the leases of a worker, then requeues the jobs of workers without heartbeats.
note_sign_of_life()
local beats = {}
for position, claim in ipairs(args.claims) do
    local job = held(claim.id, claim.fence)
    if not job then
        beats[position] = 'lost'
    else
        call('ZADD', queue_key(job.queue, 'leases'), now + args.lease_ms, claim.id)
        beats[position] = job.cancel and 'cancelled' or 'kept'
    end
end
for _, queue in ipairs(QUEUES) do reap(queue) end
return reply({beats = beats})
