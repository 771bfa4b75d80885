-- Renews the leases of a worker, then gives back the jobs of workers that were not heard.
hear()
local beats = {}
for position, claim in ipairs(args.claims) do
    local job = held(claim.id, claim.fence)
    if not job then
        beats[position] = 'lost'
    else
        call('ZADD', lane_key(job.lane, 'leases'), now + args.lease_ms, claim.id)
        beats[position] = job.cancel and 'cancelled' or 'kept'
    end
end
for _, lane in ipairs(LANES) do reap(lane) end
return reply({beats = beats})
