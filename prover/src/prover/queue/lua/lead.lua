-- One process of all has a role: it takes it when it is free, and keeps it while it says so in time.
local key = root .. 'role:' .. args.role
local holder = call('GET', key)
if args.release then
    if holder == args.owner then call('DEL', key) end
    return reply({done = true})
end
if holder and holder ~= args.owner then return reply({done = false}) end
call('SET', key, args.owner, 'PX', args.hold_ms)
return reply({done = true})
