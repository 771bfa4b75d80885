-- Ends requests that are older than the limit and not being worked on, and drops places in line that lead nowhere.
if not may_sweep() then return reply({changed = 0, deposed = true}) end
local changed = 0
for _, lane in ipairs(LANES) do
    local old = call('ZRANGEBYSCORE', lane_key(lane, 'waiting'), '-inf', now - args.request_ms, 'LIMIT', 0, 200)
    for _, id in ipairs(old) do
        local job = read(id)
        if job and job.state == 'queued' then
            expire(id, job, args.request_ms)
            changed = changed + 1
        else
            call('ZREM', lane_key(lane, 'waiting'), id)
        end
    end
end
return reply({changed = changed})
