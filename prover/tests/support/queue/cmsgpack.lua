-- The functions of Redis's cmsgpack that the scripts of the queue use; Python does the work.
local codec = python.eval("__import__('lua_messages')")
return {
    pack = codec.pack,
    unpack = function(message) return codec.unpack(message, function() return {} end) end
}
