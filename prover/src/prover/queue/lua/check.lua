-- Attempts a write without effect, and names the keys that all jobs share and that have a type which no instance can have
-- given them. Other scripts replace arq's queues, and the keys of one job.
local overwritten = {}

local function expect(kind, prefix, names)
    for _, name in ipairs(names) do
        local key = prefix .. name
        local found = call('TYPE', key).ok
        if found ~= kind and found ~= 'none' then
            overwritten[#overwritten + 1] = {key = key, found = found, expected = kind}
        end
    end
end

expect('string', root, {'sequence', 'sweeper'})
expect('hash', root, {'signs_of_life'})
expect('zset', root, {'failed', 'results'})
for _, queue in ipairs(QUEUES) do
    expect('string', queue_key(queue, ''), {'bytes', 'passed_on'})
    expect('hash', queue_key(queue, ''), {'turns', 'types'})
    expect('zset', queue_key(queue, ''), {'pending', 'waiting', 'rings', 'leases', 'running'})
end

-- Redis refuses writes before it searches for the key, which never exists.
local written = redis.pcall('SET', root .. 'nothing', '1', 'XX')
return reply({overwritten = overwritten, refusal = written and written.err or ''})
