"""Words that are written with a capital letter and are no names."""

# They open sentences; months and weekdays have capitals everywhere.
_ORDINARY = """
a about above according across actually add after afterwards again ago all allow almost alone
along already also although always am among an and another any anybody anyone anything anyway
apparently are around as ask at avoid away back based be because become been before began begin
behind being believe below beside besides best better between both bring but buy by bye call can
cannot cant certainly change check choose clean clearly close come congratulations consider
continue cook could create currently dear definitely delete despite did didnt discuss do does
doesnt dont down due during each early earlier either else enjoy enough especially even eventually
ever every everybody everyone everything everywhere exactly except exciting fetch few finally find
first fix follow food for forget fortunately four free from fun further furthermore generally get
give glad go going good goodbye got great guess had happy hardly has have having he hello help
hence her here hers herself hey hi him himself his home honestly hopefully how however i if
imagine important in indeed initially inside instead into is isnt it its itself ive im ill id just
keep kind know last lastly late later latest learn least leave less let lets like likely listen
little long look looking lots love luckily made mainly make many may maybe me mean meanwhile meet
might mine miss money more moreover most mostly move much music must my myself near nearly need
neither never nevertheless new next nice no nobody none nonetheless nor normally not note nothing
notice now nowhere obviously of off often oh ok okay old on once one only open or ordinarily other
others otherwise our ours out outside over overall own pay people perhaps personally please
possibly prefer presumably probably put question quick quite rather read really recently regarding
regardless remember remind remove right run sadly said same save say see seems send set several
shall she should show similarly simply since so some somebody somehow someone something sometimes
somewhere soon sorry speaking start still stop such suddenly sure surely take talk tell ten than
thank thanks that thats the their theirs them themselves then there therefore these they thing
things think this those though thought three through throughout thus time to today together
tomorrow tonight too toward towards travel try turn two ultimately under understand unfortunately
unless unlike until up update upon us use usually very wait walk want warning was wasnt watch we
welcome well went were what whatever whats when whenever where whereas wherever whether which
while who whoever whole whom whose why will wish with within without wont wonderful work would wow
write yeah yes yesterday yet you your yours yourself
"""
ORDINARY = frozenset(_ORDINARY.split())

ARTICLES = frozenset(("a", "an", "the"))

# Of these a name begins with more often than a sentence does, before another word with a capital.
NAMING = frozenset(("best", "great", "home", "little", "new", "old", "will"))

_CALENDAR = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june
july august september october november december mon tue wed thu fri sat sun jan feb mar apr jun
jul aug sep sept oct nov dec
"""
CALENDAR = frozenset(_CALENDAR.split())

_TITLES = """
mr mrs ms miss mx dr prof professor sir madam
"""
TITLES = frozenset(_TITLES.split())

# They join the parts of a name: Ludwig van Beethoven, Bank of England.
_PARTICLES = """
of de del della di da du la le van von der den bin al
"""
PARTICLES = frozenset(_PARTICLES.split())

# What ends like this and opens a sentence is a verb more often than a name.
ORDINARY_ENDING = "ing"
